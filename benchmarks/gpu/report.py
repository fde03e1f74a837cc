"""Markdown page of a record of the GPU benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu.precision_agreement import TOLERANCES
from benchmarks.gpu.quickstart_parts import PARTS

SIZES = {"tokens_per_s": "tokens/s", "seconds": "s", "peak_gib": "peak GiB"}
SECTIONS: dict[str, tuple[str, Mapping[str, str]]] = {
    "decode": (
        "Generation",
        {"rows": "rows", "prompt_tokens": "prompt", "new_tokens": "new", **SIZES, "first_call_s": "first call, s"},
    ),
    "update": (
        "Update",
        {
            "samples": "samples",
            "action_tokens": "action tokens",
            **SIZES,
            "mfu": "MFU on distinct tokens",
            "first_update_s": "first update, s",
        },
    ),
    "profile": (
        "Profile",
        {
            "step_ms": "ms a step",
            "kernels_a_step": "kernels a step",
            "launches_a_step": "launches a step",
            "kernels": "kernels",
            "launches": "launches",
            "busy_share": "GPU busy",
        },
    ),
    "quickstart": (
        "Quickstart, seconds by part",
        {
            **{f"{part}_s": part.replace("_", " ") for part in PARTS},
            "rollout_s_later": "rollout, third update on",
            "update_s_later": "update, third on",
        },
    ),
    "training": (
        "Training, end to end",
        {
            "rollout_tokens_per_s": "rollout tok/s",
            "update_tokens_per_s": "update tok/s",
            "update_sequence_tokens_per_s": "with prompts",
            "seconds_per_update": "s a step",
            "peak_memory_gib": "peak GiB",
            "rollout_share_of_copy": "rollout: bandwidth",
            "rollout_share_of_matmul": "rollout: matmul",
            "update_share_of_matmul": "update: matmul",
        },
    ),
}
AGREEMENT = {
    "device": "device",
    "dtype": "dtype",
    "tokens": "tokens",
    "logprob_mean": "log-prob, mean",
    "logprob_max": "log-prob, max",
    "gradient": "gradient, relative",
    "gradient_cosine": "gradient, cosine",
    "agrees": "agrees",
}


def page(record: Mapping[str, Any]) -> str:
    """Return the Markdown page of a benchmark record; parts without rows are left out."""
    limits, rows = record["limits"], record["rows"]
    memory = f", {limits['memory_gib']:.0f} GiB" if limits["memory_gib"] else ""
    versions = "; ".join(f"{name} {version}" for name, version in record["versions"].items())
    parts = [
        "# Teams on a GPU",
        f"`{record['command']}` on {limits['device']}{memory}, commit {record['commit'] or 'unknown'}. Measured in the "
        f"same run: {limits['matmul_tflops']:.3g} TFLOP/s of bfloat16 matrix product, {limits['copy_gb_s']:.4g} GB/s "
        f"of copy. Versions: `{versions}`. Numbers: [gpu.json](gpu.json).",
        "Qwen2.5 shapes have random weights and a byte tokenizer. The base is bfloat16 and frozen. Adapters are "
        "float32, of rank 8 on query and value projections.",
    ]
    for prefix, (title, columns) in SECTIONS.items():
        chosen = {name.partition("/")[2] or name: row for name, row in rows.items() if name.partition("/")[0] == prefix}
        if chosen:
            parts += [f"## {title}", _table(chosen, columns)]
    if "precisions" in rows.get("agreement", {}):
        parts += ["## Agreement with float32 on the CPU", _agreement(rows["agreement"]["precisions"])]
    if "success" in rows.get("learning", {}):
        parts += ["## Learning", _learning(rows["learning"])]
    failed = [f"- {name}: {row['error']}" for name, row in rows.items() if "error" in row]
    parts += ["## Not measured", "\n".join(failed)] if failed else []
    return "\n\n".join(parts) + "\n"


def _agreement(rows: Sequence[Mapping[str, Any]]) -> str:
    bounds = "; ".join(
        f"{str(dtype).removeprefix('torch.')} {bound.logprob_mean:g} mean, {bound.logprob_max:g} max, "
        f"{bound.gradient:g} gradient"
        for dtype, bound in TOLERANCES.items()
    )
    lines = [" | ".join(_cell(name, row[name]) for name in AGREEMENT) for row in rows]
    return "\n".join(
        [
            f"Log-probs (nats) and gradients of the same sampled actions. Tolerances: {bounds}.",
            "",
            *_lines(list(AGREEMENT.values()), lines),
        ]
    )


def _learning(learning: Mapping[str, Any]) -> str:
    cells = []
    for key in ("before", "after", "paired_gain"):
        mean, low, high = learning[key][:3]
        cells.append(f"{mean:.3f} [{low:.3f}, {high:.3f}]")
    success = " ".join(f"{value:.2f}" for value in learning["success"])
    return "\n".join(
        [
            f"{learning['model']}, duo, embedded word problems, {learning['updates']} updates in "
            f"{learning['minutes']:.1f} minutes with both evaluations; held-out accuracy (greedy) with 95 % intervals:",
            "",
            *_lines(["before", "after", "paired gain"], [" | ".join(cells)]),
            "",
            f"Share of training problems solved, update by update: {success}.",
        ]
    )


def _table(rows: Mapping[str, Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Return a table with a line per row; columns that no row has are left out."""
    measured = {name: row for name, row in rows.items() if "error" not in row}
    used = {key: title for key, title in columns.items() if any(row.get(key) is not None for row in measured.values())}
    lines = [" | ".join([name, *(_cell(key, row.get(key)) for key in used)]) for name, row in measured.items()]
    return "\n".join(_lines(["row", *used.values()], lines))


def _lines(titles: Sequence[str], rows: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles), *(f"| {row} |" for row in rows)]


def _cell(name: str, value: Any) -> str:
    if value is None:  # not measured
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if name == "mfu" or "_share" in name:
        return f"{100 * value:.1f} %"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return str(value)
