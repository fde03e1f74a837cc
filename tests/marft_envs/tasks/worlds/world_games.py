"""Games in the worlds, for tests."""

from __future__ import annotations

from functools import cache

import envs_data
import marft_envs
from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.execution import ToolLimits, execute
from marft_envs.tasks.worlds import WORLDS, load

NAMES = tuple(world.name for world in WORLDS)
KINDS = {world.name: world for world in WORLDS}
SPLITS = {name: tuple(envs_data.manifest()[f"tools/{name}"]["splits"]) for name in NAMES}
SETS = [(name, split) for name in NAMES for split in SPLITS[name]]
SAFE = [name for name in NAMES if "safety" in SPLITS[name]]
cached_tasks = cache(load)


def new_game(team, world="", split="train", **kwargs):
    """Make a game; `world` is one of NAMES, or empty for all."""
    data = cached_tasks(f"embedded:{world}" if world else "embedded", split)
    return marft_envs.make(f"marft/tools_{team}-v0", data=data, **kwargs)


def games(team, world, split):
    """Yield a game begun with each task of a set in turn."""
    game = new_game(team, world, split)
    for index in range(len(game.unwrapped.tasks)):
        game.reset(seed=index, options={"index": index})
        yield game


def rows(world, split):
    return envs_data.rows(f"tools/{world}", split)


def as_calls(entries):
    return [Call(entry["tool"], entry["arguments"]) for entry in entries]


def after(task, calls, start=None):
    """Return the world's state, as JSON, after calls; all must succeed."""
    kind, state = KINDS[task.world], task.start if start is None else start
    for call in calls:
        done = execute(kind, kind.tools()[call.name], call.arguments, state, ToolLimits())
        assert done.status == "ok", (task.id, call, done)
        state = done.state
    return state
