"""Success of an untrained model on each level of the ladders, greedy and sampled as in training, solo and duo.

    python -m benchmarks.ladder [--problems 20,50,100] [--families math,tools] [--teams solo] [--json FILE]

All cells are played with the first number of problems of each level of the split `test`, then with the next. The
record keeps the score of each problem and is written after each cell, so a second call goes on where one was ended. The
pages of the environments show it (`python -m docs_generator.environment_pages`). Programs are judged by the strongest
sandbox that works.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from baselines.experiment.environments import factory
from baselines.experiment.presets import LADDER, PRESETS
from baselines.experiment.trained_team import TeamSettings
from benchmarks.machine import write_record
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.context_window import ContextSettings
from marft_agents.runs.evaluation import evaluate
from marft_envs.environment_capabilities import listing_game

FAMILIES = ("math", "cmath", "codeforces", "tools")
TEAMS = ("solo", "duo")
MODEL = "smollm2-135m"
RECORD = Path(__file__).parents[1] / "docs" / "benchmarks" / "ladder.json"
Scores = dict[str, str]
"""Scores of the first problems of each level, in order: 1, 0, or - for an episode that failed."""


def sampling_of(family: str, temperature: float | None = None) -> SamplingParams:
    """Return the sampling parameters of trainings on a ladder, with another temperature if it is given."""
    preset = PRESETS[f"ladder-{family}"]
    chosen = preset["temperature"] if temperature is None else temperature
    return SamplingParams(temperature=chosen, max_new_tokens=preset["max_new_tokens"])


def play(
    family: str, team: str, sampling: SamplingParams, scores: Mapping[str, str], problems: int, model: str = MODEL
) -> Scores:
    """Play the problems that have no score yet; return all scores by level.

    Args:
        family: Task of the ladder.
        team: "solo" or "duo".
        sampling: Sampling parameters of all agents.
        scores: Scores so far.
        problems: Number of problems of each level.
        model: Name of the model.
    """
    keywords: dict[str, Any] = {"data": LADDER, "split": "test", "team": f"ladder_{team}"}
    if family == "tools":
        keywords["horizon"] = 1
    make_env = factory(f"marft/{family}_{team}", keywords)
    env = make_env()
    game = listing_game(env)
    assert game is not None
    places: dict[str, list[int]] = {}
    for place in range(len(game.tasks)):
        places.setdefault(str(game.tasks[place].meta["level"]), []).append(place)
    missing = [(level, at) for level in sorted(places) for at in places[level][len(scores.get(level, "")) : problems]]
    found = dict(scores)
    if not missing:
        return found
    policy = TeamSettings({"*": model}, sampling, ContextSettings()).load(env.possible_agents)
    try:
        # Sampling is seeded by seed and place in the list, so each further pass has a seed of its own.
        played = evaluate(make_env, policy, [{"index": at} for _, at in missing], seeds=(len(scores.get("1", "")),))
    finally:
        policy.close()
    for (level, _), (score,) in zip(missing, played.scores.tolist(), strict=True):
        found[level] = found.get(level, "") + ("-" if math.isnan(score) else str(int(score)))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the cells and write the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ladder", description=__doc__)
    parser.add_argument("--problems", default="20,50,100", help="problems of each level, of one pass after another")
    parser.add_argument("--families", default=",".join(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--teams", default=",".join(TEAMS), help=f"of {', '.join(TEAMS)}")
    parser.add_argument("--json", type=Path, default=RECORD, help="record to go on with (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    families, teams = chosen.families.split(","), chosen.teams.split(",")
    if unknown := [name for name in (*families, *teams) if name not in (*FAMILIES, *TEAMS)]:
        parser.error(f"found {unknown[0]!r}, wanted some of {', '.join(FAMILIES)}, of {', '.join(TEAMS)}")
    cells: dict[str, Scores] = json.loads(chosen.json.read_text("utf-8"))["cells"] if chosen.json.exists() else {}
    for problems, family, team, kind in product(
        map(int, chosen.problems.split(",")), families, teams, ("greedy", "sampled")
    ):
        name = f"{family}/{team}/{kind}"
        sampling = sampling_of(family, 0.0 if kind == "greedy" else None)
        cells[name] = play(family, team, sampling, cells.get(name, {}), problems)
        write_record(chosen.json, "ladder", {"model": MODEL, "cells": cells})
        shares = (f"{level}: {text.count('1')}/{len(text)}" for level, text in cells[name].items())
        print(f"{name}  {'  '.join(shares)}", flush=True)


if __name__ == "__main__":
    main()
