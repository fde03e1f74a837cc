"""Transfer: a trained team in another form, as `full`, with one agent fewer or with one agent doubled.

Only teams whose dependency holds for any number of agents, `chain` and `full`, have such forms. The agent that goes or
comes twice is the last one that gives no answer; its double plays the same adapter, and acts right after it. Worked
examples stay as they are, so they may show a teammate that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baselines.bench.arms import FEWER, FULL

ANY_NUMBER = ("chain", "full")  # dependencies that name no agent


def transferred(team: Mapping[str, Any], arm: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a team in another form, and the trained agent that plays each of its agents.

    Args:
        team: The trained team, in its JSON form.
        arm: One of `TRANSFERS`.

    Raises:
        ValueError: The team has no such form; says why.
    """
    profiles = list(team["profiles"])
    dependency = team.get("dependency", "chain")
    told = dict(dependency) if isinstance(dependency, Mapping) else {"kind": dependency}
    if told not in [{"kind": kind} for kind in ANY_NUMBER]:
        raise ValueError(
            f"its dependency is {dependency!r}, wanted {' or '.join(ANY_NUMBER)}, for any number of agents"
        )
    if arm == FULL:
        if told["kind"] != "chain" or len(profiles) < 3:
            raise ValueError(f"found {told['kind']} of {len(profiles)} agents, wanted a chain of at least 3")
        return {**team, "dependency": "full"}, {profile["name"]: profile["name"] for profile in profiles}
    helpers = [place for place, profile in enumerate(profiles) if not profile.get("answers")]
    if not helpers:
        raise ValueError("all of its agents answer, wanted one that does not, to leave out or to double")
    place = helpers[-1]
    players = {profile["name"]: profile["name"] for profile in profiles}
    if arm == FEWER:
        del players[profiles.pop(place)["name"]]
        return {**team, "profiles": profiles}, players
    name = profiles[place]["name"]
    stem, number = name.rpartition("_")[0] or name, 1
    while f"{stem}_{number}" in players:
        number += 1
    profiles.insert(place + 1, {**profiles[place], "name": f"{stem}_{number}"})
    return {**team, "profiles": profiles}, {each["name"]: players.get(each["name"], name) for each in profiles}
