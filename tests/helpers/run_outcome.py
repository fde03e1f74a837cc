"""All that a run leaves behind, as values to compare."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file

from marft_agents.runs import checkpoint

PROCESS = ("seconds/", "team/prompt_cache_hits")  # metrics that say how it was done, not what


def plain(state):
    """Turn nested state into comparable values."""
    if isinstance(state, torch.Tensor):
        return state.tolist()
    if isinstance(state, dict):
        return {str(k): plain(v) for k, v in state.items()}
    return [plain(v) for v in state] if isinstance(state, list | tuple) else state


def outcome(folder: Path):
    """Return all that a run leaves behind, but seconds, and what the caches of its processes saved."""
    newest = checkpoint.resolve(folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {
        "checkpoint": newest.name,
        "best": os.readlink(newest.parent / "best") if (newest.parent / "best").is_symlink() else None,
        "adapters": {p.parent.name: plain(load_file(p)) for p in sorted(newest.rglob("*.safetensors"))},
        "learner": plain(torch.load(newest / "learner.pt", weights_only=True)),
        "metrics": [{k: v for k, v in line.items() if not k.startswith(PROCESS)} for line in lines],
        "episodes": (folder / "episodes.jsonl").read_text(),
    }
