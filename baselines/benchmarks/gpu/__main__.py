"""Benchmark team training on a GPU: `python -m baselines.benchmarks.gpu`.

It measures the limits of the GPU, and the end-to-end training of duos and trios. With the first model it also trains 1
to 32 independent agents, an adapter each, and a duo whose episodes vLLM plays. The models are SmolLM2-135M and random
weights in the shapes of Qwen2.5-0.5B and 3B. It compares bfloat16 and float32 on the GPU with float32 on the CPU. A
learning run trains SmolLM2-135M on embedded word problems. The results go to docs/benchmarks/gpu.json, .md and .png.
`--device cpu --shapes tiny` checks in seconds that the benchmark works, and writes nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from baselines import quickstart
from baselines.benchmarks.gpu.benchmark_models import SHAPES
from baselines.benchmarks.gpu.peak_throughput import measure_limits
from baselines.benchmarks.gpu.precision_agreement import measure_agreement
from baselines.benchmarks.gpu.report import page
from baselines.benchmarks.gpu.training import Plan, measure_training
from baselines.cli.main import guarded
from baselines.cli.sampler_flags import OWN, VLLM
from marft_agents.runs.run_folder import read_metrics, versions, write_json

DOCS = Path("docs/benchmarks")
ON_CUDA = ("smollm2-135m", "qwen2.5-0.5b", "qwen2.5-3b")
ADAPTERS = (1, 2, 4, 8, 32)  # of independent agents on one base
LEARNING = {"groups": 16, "group_size": 8, "micro_batch": 128}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m baselines.benchmarks.gpu", description=str(__doc__).split("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: only with --shapes tiny")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=ON_CUDA, help=f"default: {' '.join(ON_CUDA)}")
    parser.add_argument("--updates", type=int, default=Plan.updates, help=f"measured per team ({Plan.updates})")
    parser.add_argument("--learn-updates", type=int, default=40, help="of the learning run (40)")
    parser.add_argument(
        "--out", type=Path, default=DOCS, help=f"folder of the page ({DOCS}); nothing is written on a CPU"
    )
    options = parser.parse_args(given)
    command = shlex.join(["python", "-m", "baselines.benchmarks.gpu", *given])
    return guarded(lambda: run(options, command))


def run(options: argparse.Namespace, command: str) -> int:
    """Measure, print the page and write it on CUDA; return 1 if a precision exceeds its tolerance, else 0."""
    refuse_unsuitable(options.device, options.shapes)
    on_cuda = options.device == "cuda"
    with tempfile.TemporaryDirectory() as folder:
        record = measure(options, command, Path(folder))
        print(page(record))
        if on_cuda:
            write_json(options.out / "gpu.json", record)
            (options.out / "gpu.md").write_text(page(record), encoding="utf-8")
            (options.out / "gpu.png").write_bytes((Path(folder) / "learning" / "curve.png").read_bytes())
    return 0 if all(row["agrees"] for row in record["agreement"]) else 1


def refuse_unsuitable(device: str, shapes: Sequence[str]) -> None:
    """Raise ValueError for a device and shapes that give no GPU measurement.

    The combination of `cpu` and the shape `tiny` is allowed as a check of the benchmark itself.
    """
    if device == "cpu" and list(shapes) != ["tiny"]:
        raise ValueError("--device cpu only checks that the benchmark runs: wanted --shapes tiny with it")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device was found; to see that the benchmark runs: --device cpu --shapes tiny")


def measure(options: argparse.Namespace, command: str, folder: Path) -> dict[str, Any]:
    """Run all measurements and return their record; `folder` takes intermediate files."""
    device, small = torch.device(options.device), options.device == "cpu"
    plan = Plan(options.updates, 1, 4, 4) if small else Plan(options.updates)
    model = "tiny" if small else "smollm2-135m"
    limits = measure_limits(device)
    training = []
    rows: list[tuple[str, str | int, str]] = [(name, team, OWN) for name in options.shapes for team in ("duo", "trio")]
    rows += [(options.shapes[0], agents, OWN) for agents in (ADAPTERS[:2] if small else ADAPTERS)]
    rows += [("smollm2-135m", "duo", VLLM)] if "smollm2-135m" in options.shapes else []
    for name, team, sampler in rows:
        training.append(measure_training(SHAPES[name], team, plan, limits, device, sampler))
        print(training[-1], file=sys.stderr, flush=True)
    return {
        "command": command,
        "versions": versions() | {"cuda": torch.version.cuda or "none"},
        "limits": dataclasses.asdict(limits),
        "plan": dataclasses.asdict(plan),
        "model": model,
        "training": training,
        "agreement": measure_agreement(
            SHAPES[model], device, groups=1 if small else 4, max_new_tokens=4 if small else 32
        ),
        "learning": learn(model, options.learn_updates, folder / "learning", small=small),
    }


def learn(model: str, updates: int, out: Path, *, small: bool) -> dict[str, Any]:
    """Train a duo as in the quickstart with larger batches; return the summary and the success per update."""
    changes: dict[str, Any] = {"groups": 1, "group_size": 2, "max_new_tokens": 4} if small else LEARNING
    plan = quickstart.experiment(0, model=model, updates=updates, **changes)
    summary = quickstart.run(plan, out, limit=2 if small else None)
    return {**summary, "model": model, "success": [step["team/success"] for step in read_metrics(out)]}


if __name__ == "__main__":
    sys.exit(main())
