"""Replay of a record: (seed, task id, list of actions) rebuilds every observation byte for byte.

`replay` plays a whole record again and judges again. `rebuild` fills in what the short records of training leave out;
it takes the recorded outcomes, so that no judge and no tool runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marft_envs.game.episode import Episode
from marft_envs.game.turn import Turn


def replay(env: Any, record: Episode) -> list[str]:
    """Play a record again.

    Args:
        env: An AEC environment made as the recorded one was.
        record: The episode; it may be unfinished.

    Returns:
        The differences between replay and record, a line each; empty if there are none.
    """
    game = env.unwrapped
    env.reset(seed=record.seed, options={"task_id": record.task_id})
    differences = []
    if record.team != game.team.fingerprint:
        differences.append(f"team: recorded {record.team!r}, now {game.team.fingerprint!r}")
    if dict(record.settings) != game.settings:
        differences.append(f"settings: recorded {dict(record.settings)!r}, now {game.settings!r}")
    for number, turn in enumerate(record.turns):
        if not _is_live(env) or env.agent_selection != turn.agent:
            now = env.agent_selection if _is_live(env) else "nobody"
            return [*differences, f"turn {number}: recorded {turn.agent} acting, now {now}"]
        differences += _compare_texts(f"turn {number} ({turn.agent})", turn.observation, str(env.observe(turn.agent)))
        env.step(turn.action)
    return differences + _compare_ends(record, game.episode(), bool(differences))


def rebuild(
    env: Any, *, seed: int | None, task_id: str, actions: Sequence[str], outcomes: Sequence[Mapping[str, Any] | None]
) -> Episode:
    """Return the whole record of a game from its actions and outcomes.

    Args:
        env: A Flex-MG made as the recorded one was.
        seed: Seed of the reset.
        task_id: Id of the task.
        actions: Actions of all turns, in order.
        outcomes: Outcome of each round in its JSON form; None for a round that was not judged.

    Raises:
        ValueError: The actions do not fit: the game is over before the last one, or not over after it.
    """
    known = Episode.outcomes_of(outcomes)
    env.reset(seed=seed, options={"task_id": task_id, "outcomes": known})
    for number, action in enumerate(actions):
        if not _is_live(env):
            raise ValueError(f"task {task_id!r}: {len(actions)} actions are recorded, the game is over after {number}")
        env.step(action)
    if _is_live(env):
        raise ValueError(f"task {task_id!r}: after the {len(actions)} recorded actions the game is not over")
    episode: Episode = env.unwrapped.episode()
    return episode


def _compare_ends(record: Episode, now: Episode, differs: bool) -> list[str]:
    """Compare the rest of two records; the turns only if no observation differed already.

    Faults are left out: a record holds actions as the game took them, so a cut action is not cut again.
    """
    differences = []
    for what in ("outcomes", "rewards", "terms", "terminated", "truncated"):
        one, other = getattr(record, what), getattr(now, what)
        if one != other:
            differences.append(f"{what}: recorded {one!r}, now {other!r}")
    turns, again = _played(record.turns), _played(now.turns)
    if not differs and turns != again:
        differences.append(f"turns: recorded {turns!r}, now {again!r}")
    return differences


def _played(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return tuple(turn._replace(fault="", tokens=None, shortened=()) for turn in turns)


def _is_live(env: Any) -> bool:
    return bool(env.agents) and not (env.terminations[env.agent_selection] or env.truncations[env.agent_selection])


def _compare_texts(where: str, recorded: str, now: str) -> list[str]:
    if recorded == now:
        return []
    place = 0
    while recorded[place : place + 1] == now[place : place + 1]:  # slices: one text may be the beginning of the other
        place += 1
    return [
        f"{where}: the observation differs from character {place} on: "
        f"recorded {recorded[place : place + 60]!r}, now {now[place : place + 60]!r}"
    ]
