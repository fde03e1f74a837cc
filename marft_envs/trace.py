"""Records of episodes with every observation, action and outcome, and the replay of a record.

(seed, task id, list of actions) rebuilds every observation byte for byte. `replay` does so and reports the
differences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from marft_envs.task import Outcome


class Turn(NamedTuple):
    """One agent's action.

    Attributes:
        agent: Agent that acted.
        round: Index of the round, from 0.
        layer: Layer of the agent in the round, from 0.
        visible: The actions it was allowed to see, as (round, agent), oldest first, without its own. Those that it
            read with tokens left out are in `shortened`.
        observation: Observation of the agent before the action.
        action: Text of the action, as the game took it.
        fault: Reason that the action counts as invalid (too long, not UTF-8, a refused route); empty if it does
            not.
        tokens: Number of tokens of the action; None if not counted (the game knows text only).
        shortened: Parts that a policy left out to fit its context window, an entry per message: its `author`, the
            `round` of the turn (None for the environment's), the number of tokens `removed`. The game cuts nothing.
    """

    agent: str
    round: int
    layer: int
    visible: tuple[tuple[int, str], ...]
    observation: str
    action: str
    fault: str = ""
    tokens: int | None = None
    shortened: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; it holds `shortened` only if that is not empty."""
        plain = self._asdict() | {"visible": [list(place) for place in self.visible]}
        shortened = plain.pop("shortened")
        return plain | {"shortened": [dict(entry) for entry in shortened]} if shortened else plain


@dataclass(frozen=True)
class Episode:
    """A finished or running game.

    Attributes:
        env_id: Id of the environment.
        settings: Settings of the game, as far as they are data.
        seed: Seed given to the reset; None if none was.
        task_id: Id of the task.
        team: Fingerprint of the team.
        turns: Turns in the order they were taken.
        outcomes: One for each judged round; None for a round that was not judged.
        rewards: The team reward of each finished round.
        terminated: True if it ended for good.
        truncated: True if the horizon ended it.
        terms: Terms of a composite team reward, each before weighting; empty for other rewards and before the end.
    """

    env_id: str
    settings: Mapping[str, Any]
    seed: int | None
    task_id: str
    team: str
    turns: tuple[Turn, ...]
    outcomes: tuple[Outcome | None, ...]
    rewards: tuple[float, ...]
    terminated: bool
    truncated: bool
    terms: Mapping[str, float] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        """True if the task was solved."""
        return any(outcome is not None and outcome.success for outcome in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        plain["turns"] = [turn.to_dict() for turn in self.turns]
        plain["outcomes"] = [
            None if outcome is None else asdict(outcome) | {"detail": dict(outcome.detail)} for outcome in self.outcomes
        ]
        return plain | {"settings": dict(self.settings), "rewards": list(self.rewards), "terms": dict(self.terms)}

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Episode:
        """Read the JSON form.

        Raises:
            ValueError: A key is missing, unknown or of another type.
        """
        plain = dict(value)
        try:
            plain["turns"] = tuple(
                Turn(
                    **turn
                    | {"visible": tuple((place[0], place[1]) for place in turn["visible"])}
                    | {"shortened": tuple(turn.get("shortened", ()))}
                )
                for turn in plain["turns"]
            )
            plain["outcomes"] = tuple(
                None if outcome is None else Outcome(**outcome | {"events": tuple(outcome.get("events", ()))})
                for outcome in plain["outcomes"]
            )
            return cls(**plain | {"rewards": tuple(plain["rewards"])})
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"this is no record of an episode: {type(error).__name__}: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> Episode:
        """Read one line of JSON.

        Raises:
            ValueError: It is no JSON, or no record of an episode.
        """
        value = json.loads(text)
        if not isinstance(value, Mapping):
            raise ValueError(f"this is no record of an episode: found {type(value).__name__}, wanted an object")
        return cls.from_dict(value)


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
    differences = [
        f"{what}: recorded {recorded!r}, now {now!r}"
        for what, recorded, now in (
            ("team", record.team, game.team.fingerprint),
            ("settings", dict(record.settings), game.settings),
        )
        if recorded != now
    ]
    for number, turn in enumerate(record.turns):
        if not _is_live(env) or env.agent_selection != turn.agent:
            now = env.agent_selection if _is_live(env) else "nobody"
            return [*differences, f"turn {number}: recorded {turn.agent} acting, now {now}"]
        differences += _compare_texts(f"turn {number} ({turn.agent})", turn.observation, str(env.observe(turn.agent)))
        env.step(turn.action)
    return differences + _compare_ends(record, game.episode(), bool(differences))


def _compare_ends(record: Episode, now: Episode, differs: bool) -> list[str]:
    """Compare the rest of two records; the turns only if no observation differed already.

    Faults are left out: a record holds actions as the game took them, so a cut action is not cut again.
    """
    pairs = {
        what: (getattr(record, what), getattr(now, what))
        for what in ("outcomes", "rewards", "terms", "terminated", "truncated")
    }
    if not differs:
        pairs["turns"] = (_played(record.turns), _played(now.turns))
    return [f"{what}: recorded {one!r}, now {other!r}" for what, (one, other) in pairs.items() if one != other]


def _played(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return tuple(turn._replace(fault="", tokens=None, shortened=()) for turn in turns)


def _is_live(env: Any) -> bool:
    return bool(env.agents) and not (env.terminations[env.agent_selection] or env.truncations[env.agent_selection])


def _compare_texts(where: str, recorded: str, now: str) -> list[str]:
    if recorded == now:
        return []
    place = next(
        (index for index, (one, other) in enumerate(zip(recorded, now, strict=False)) if one != other),
        min(len(recorded), len(now)),
    )
    return [
        f"{where}: the observation differs from character {place} on: "
        f"recorded {recorded[place : place + 60]!r}, now {now[place : place + 60]!r}"
    ]
