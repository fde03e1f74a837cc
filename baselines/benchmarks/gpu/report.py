"""Markdown page with the results of the GPU benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baselines.benchmarks.gpu.precision_agreement import TOLERANCES

TRAINING = {
    "model": "model",
    "team": "team",
    "sampler": "sampler",
    "rollout_tokens_per_s": "rollout tok/s",
    "update_tokens_per_s": "update tok/s",
    "update_sequence_tokens_per_s": "with prompts",
    "seconds_per_update": "s a step",
    "peak_memory_gib": "peak GiB",
    "rollout_share_of_copy": "rollout: bandwidth",
    "rollout_share_of_matmul": "rollout: matmul",
    "update_share_of_matmul": "update: matmul",
    "prompt_tokens_mean": "prompt tokens",
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
    """Return the Markdown page of a benchmark record."""
    limits, plan = record["limits"], record["plan"]
    memory = f", {limits['memory_gib']:.0f} GiB" if limits["memory_gib"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    parts = [
        "# Teams on a GPU",
        f"`{record['command']}` on {limits['device']}{memory}; measured in the same run: "
        f"{limits['matmul_tflops']:.3g} TFLOP/s of bfloat16 matrix product, {limits['copy_gb_s']:.4g} GB/s of copy. "
        f"{versions}. Numbers: [gpu.json](gpu.json).",
        "## Training, end to end",
        f"{plan['groups']} problems x {plan['group_size']} samples, at most {plan['max_new_tokens']} new tokens a "
        f"turn, mean of {plan['updates']} updates after one that warms up; one frozen bfloat16 base, a float32 adapter "
        "for each agent. tok/s are sampled tokens of the whole team per second of the phase; with prompts counts each "
        "action's prompt too. Shares are of the limits above and leave attention out: lower bounds. Qwen2.5 shapes "
        "have random weights and a byte tokenizer.",
        _table(TRAINING, [row for row in record["training"] if "error" not in row]),
        *(
            f"{row['model']}, {row['team']}, {row['sampler']}: {row['error']}"
            for row in record["training"]
            if "error" in row
        ),
        "## Agreement with float32 on the CPU",
        f"Log-probs (nats) and gradients of the same sampled actions of {record['model']}. Tolerances: "
        + "; ".join(
            f"{str(dtype).removeprefix('torch.')} {bound.logprob_mean:g} mean, {bound.logprob_max:g} max, "
            f"{bound.gradient:g} gradient"
            for dtype, bound in TOLERANCES.items()
        )
        + ".",
        _table(AGREEMENT, record["agreement"]),
        "## Learning",
        _learning(record["learning"]),
    ]
    return "\n\n".join(parts) + "\n"


def _learning(learning: Mapping[str, Any]) -> str:
    cells = []
    for key in ("before", "after", "paired_gain"):
        mean, low, high = learning[key][:3]
        cells.append(f"{mean:.3f} [{low:.3f}, {high:.3f}]")
    lines = [
        f"{learning['model']}, duo, embedded word problems, {learning['updates']} updates in "
        f"{learning['minutes']:.1f} minutes with both evaluations; held-out accuracy (greedy) with 95 % intervals:",
        "",
        "| before | after | paired gain |",
        "|---|---|---|",
        f"| {' | '.join(cells)} |",
    ]
    success = " ".join(f"{value:.2f}" for value in learning["success"])
    return "\n".join(
        [*lines, "", f"Share of training problems solved, update by update: {success}.", "", "![curve](gpu.png)"]
    )


def _table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"| {' | '.join(columns.values())} |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append(f"| {' | '.join(_cell(name, row[name]) for name in columns)} |")
    return "\n".join(lines)


def _cell(name: str, value: Any) -> str:
    if value is None:  # not measured
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if "_share_" in name:
        return f"{100 * value:.1f} %"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return str(value)
