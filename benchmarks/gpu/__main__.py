"""Benchmark generation and updates on a GPU: `python -m benchmarks.gpu` (`make bench-gpu`).

Rows come in the order in which they are wanted. Each has a time limit, and all together take five minutes at most. A
row is written to docs/benchmarks/gpu.json as soon as it is measured; the same command on the same commit and device
continues there. gpu.md is the page of the record. `--full` adds the end-to-end training of teams of 1 to 32 agents,
MARFT-A, MARFT-T and a learning run: half an hour. The models are SmolLM2-135M and random weights in the shapes of
Qwen2.5-0.5B and 3B. `--device cpu` checks in seconds that the benchmark works, with a tiny model, and writes nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from baselines import quickstart
from baselines.cli.main import guarded
from baselines.experiment.samplers import OWN, VLLM
from baselines.experiment.source_commit import source_commit
from benchmarks.gpu import generation, quickstart_parts, updates
from benchmarks.gpu.benchmark_models import SHAPES
from benchmarks.gpu.generation import Decoding
from benchmarks.gpu.peak_throughput import PeakThroughput, measure_limits
from benchmarks.gpu.precision_agreement import measure_agreement
from benchmarks.gpu.record import Row, load_record, measure_rows
from benchmarks.gpu.report import page
from benchmarks.gpu.training import Plan, measure_training
from benchmarks.gpu.updates import Samples
from marft_agents.runs.run_folder import read_metrics, versions

DOCS = Path("docs/benchmarks")
BUDGET_S = 300.0
FULL_S = 3600.0
LEARNING = {"groups": 16, "group_size": 8, "micro_batch": 128}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=str(__doc__).split("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: check the benchmark itself")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="rows whose names begin so; default: all")
    parser.add_argument("--full", action="store_true", help="teams of 1 to 32 agents and a learning run, too")
    parser.add_argument("--budget", type=float, help=f"seconds for all rows ({BUDGET_S:g}; with --full {FULL_S:g})")
    parser.add_argument("--out", type=Path, default=DOCS, help=f"folder of record and page ({DOCS})")
    options = parser.parse_args(given)
    return guarded(lambda: run(options, shlex.join(["python", "-m", "benchmarks.gpu", *given])))


def run(options: argparse.Namespace, command: str) -> int:
    """Measure, print the page and write it on CUDA; return 1 if a row failed or a precision does not agree, else 0."""
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device was found; to see that the benchmark runs: --device cpu")
    device = torch.device(options.device)
    limits = measure_limits(device)
    rows = most_wanted(device, limits) + (on_demand(device, limits) if options.full else [])
    if options.only:
        rows = [row for row in rows if row.name.startswith(tuple(options.only))]
    if not rows:
        raise ValueError(f"--only {' '.join(options.only)}: no row begins so")
    path = options.out / "gpu.json" if device.type == "cuda" else None
    facts = {"commit": source_commit(), "device": limits.device, "versions": library_versions()}
    record = load_record(path, facts)
    record |= {"command": command, "limits": dataclasses.asdict(limits)}
    measure_rows(rows, record, path, budget_s=options.budget or (FULL_S if options.full else BUDGET_S))
    text = page(record)
    print(text)
    if path is not None:
        path.with_suffix(".md").write_text(text, encoding="utf-8")
    found = [record["rows"].get(row.name, {"error": "not measured"}) for row in rows]
    return 0 if all("error" not in row and row.get("agrees", True) for row in found) else 1


def library_versions() -> dict[str, str]:
    """Return the versions of the packages and of CUDA, with the driver where there is one."""
    found = versions() | {"cuda": torch.version.cuda or "none"}
    if torch.cuda.is_available() and hasattr(torch.cuda, "driver_version"):
        found["driver"] = str(torch.cuda.driver_version())
    return found


def most_wanted(device: torch.device, limits: PeakThroughput) -> list[Row]:
    """Return the rows of the short run, most wanted first; small ones on a CPU."""
    small = device.type == "cpu"
    shape, large, real = (SHAPES["tiny" if small else name] for name in ("qwen2.5-0.5b", "qwen2.5-3b", "smollm2-135m"))
    decoding = Decoding(shape, device, *((4, 4) if small else ()))
    long = Decoding(large, device, *((2, 4) if small else (32, 512)), examples=2)
    few: dict[str, Any] = {"groups": 1, "group_size": 2, "cap": 8} if small else {}
    samples, alike = Samples(shape, device, **few), Samples(shape, device, shared=True, **few)
    precision = {"groups": 1, "max_new_tokens": 4} if small else {"groups": 4, "max_new_tokens": 32}
    tiny: dict[str, Any] = {"groups": 1, "group_size": 2, "max_new_tokens": 4} if small else {}

    def with_adapters(count: int) -> Decoding:
        return dataclasses.replace(decoding, adapters=count)

    return [
        Row("decode/own, 1 adapter", partial(generation.own, decoding)),
        Row("decode/generate", partial(generation.transformers_generate, decoding)),
        Row("update/own", partial(updates.own, samples, limits)),
        Row("update/own, answers share beginnings", partial(updates.own, alike, limits)),
        Row("decode/own, 2 adapters", partial(generation.own, with_adapters(2))),
        Row("decode/own, 8 adapters", partial(generation.own, with_adapters(8))),
        Row("update/TRL", partial(updates.trl, samples, checkpointing=True)),
        Row("update/TRL, no checkpointing", partial(updates.trl, samples, checkpointing=False)),
        Row("decode/generate_batch", partial(generation.transformers_generate_batch, decoding)),
        Row("profile/decode step, 1 adapter", partial(generation.profiled, decoding)),
        Row("profile/update", partial(updates.profiled, samples)),
        Row("agreement", partial(agreement, real, device, precision)),
        Row("decode/own, SmolLM2-135M", partial(generation.own, dataclasses.replace(decoding, shape=real))),
        Row(
            "update/own, SmolLM2-135M, MARFT-A, answers share beginnings",
            partial(updates.own, dataclasses.replace(alike, shape=real), limits, "marft-a"),
        ),
        Row("decode/own, 3B shape", partial(generation.own, long)),
        Row(
            "quickstart",
            partial(
                quickstart_parts.measure,
                real.name,
                device,
                updates=2 if small else 4,
                limit=2 if small else None,
                **tiny,
            ),
            limit_s=120.0,
        ),
        Row("profile/decode step, 8 adapters", partial(generation.profiled, with_adapters(8))),
    ]


def agreement(shape: Any, device: torch.device, sizes: Mapping[str, int]) -> Mapping[str, Any]:
    """Compare the precisions of the device with float32 on the CPU."""
    found = measure_agreement(shape, device, **sizes)
    return {"precisions": found, "agrees": all(row["agrees"] for row in found)}


def on_demand(device: torch.device, limits: PeakThroughput) -> list[Row]:
    """Return the further rows of `--full`."""
    small = device.type == "cpu"
    names = ("tiny",) if small else ("smollm2-135m", "qwen2.5-0.5b", "qwen2.5-3b")
    plan = Plan(1, 1, 4, 4) if small else Plan()
    few: dict[str, Any] = {"groups": 1, "group_size": 2, "cap": 8} if small else {}
    teams: list[tuple[str, str | int, str]] = [(name, team, OWN) for name in names for team in ("duo", "trio")]
    teams += [(names[0], agents, OWN) for agents in ((1, 2) if small else (1, 2, 4, 8, 32))]
    teams += [] if small else [("smollm2-135m", "duo", VLLM)]
    samples = Samples(SHAPES["tiny" if small else "qwen2.5-0.5b"], device, **few)
    long = Samples(SHAPES[names[-1]], device, **(few or {"groups": 4, "group_size": 8, "cap": 512}), examples=2)
    return [
        *(
            Row(f"update/own, {name}", partial(updates.own, samples, limits, name), 120)
            for name in ("marft-a", "marft-t")
        ),
        Row("update/own, 3B shape, MARFT-A", partial(updates.own, long, limits, "marft-a"), 180),
        *(
            Row(
                f"training/{name}, {team if isinstance(team, str) else f'{team} independent'}, {sampler}",
                partial(measure_training, SHAPES[name], team, plan, limits, device, sampler),
                300,
            )
            for name, team, sampler in teams
        ),
        Row("learning", partial(learn, names[0], small=small), 900),
    ]


def learn(model: str, *, small: bool) -> dict[str, Any]:
    """Train a duo as in the quickstart with larger batches; return the summary and the success per update."""
    changes: dict[str, Any] = {"groups": 1, "group_size": 2, "max_new_tokens": 4} if small else LEARNING
    plan = quickstart.experiment(0, model=model, updates=1 if small else 40, **changes)
    with tempfile.TemporaryDirectory() as folder:
        summary = quickstart.run(plan, Path(folder) / "learning", limit=2 if small else None)
        success = [step["team/success"] for step in read_metrics(Path(folder) / "learning")]
    return {**summary, "model": model, "success": success}


if __name__ == "__main__":
    sys.exit(main())
