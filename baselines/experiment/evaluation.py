"""Files of an evaluation: `evaluation.json` with all scores, and `episodes.jsonl`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from marft_agents.runs.evaluation import Evaluation
from marft_agents.runs.run_folder import EVALUATION_FILE, episode_record, replacing, versions, write_json


def save_evaluation(out: Path, result: Evaluation, record: Mapping[str, Any]) -> None:
    """Write evaluation.json and episodes.jsonl to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(episode_record(0, t, whole=True), ensure_ascii=False) + "\n" for t in result.trajectories)
    with replacing(out / "episodes.jsonl") as stream:
        stream.writelines(lines)
    summary = {
        "accuracy": None if math.isnan(result.accuracy.mean) else result.accuracy.mean,
        "interval_95": [result.accuracy.low, result.accuracy.high],
        "return": result.mean_return,
        "terms": result.terms,
        "violations": result.violations,
        "prompts_shortened": result.prompts_shortened,
        "prompt_tokens": result.prompt_tokens,
        "tokens_per_episode": result.tokens_per_episode,
        "failures": result.failures,
        "ledger": None if result.ledger is None else result.ledger.to_dict(),
        "tools": _tools(result),
        "sharing": result.sharing or None,
        "scores": _grid(result.scores),
        "returns": _grid(result.returns),
        "tokens": _grid(result.tokens),
        "violation": None if result.violation is None else _grid(result.violation),
        "versions": versions(),
    }
    write_json(out / EVALUATION_FILE, {**record, **summary}, own=True)


def _grid(values: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """Return a grid [scenarios, seeds] for JSON, with null for failed episodes."""
    return [[None if math.isnan(value) else value for value in row] for row in values.tolist()]


def _tools(result: Evaluation) -> dict[str, Any] | None:
    """Return the tool statistics for JSON; None where no episode has a record."""
    team, agents = result.tools
    if not team.episodes:
        return None
    return {"team": team.to_dict(), "agents": {agent: use.to_dict() for agent, use in agents.items()}}
