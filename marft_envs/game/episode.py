"""Records of episodes with every observation, action and outcome."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from marft_envs.game.secrets import Secret
from marft_envs.game.task import Outcome
from marft_envs.game.turn import Turn


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
        secrets: Texts that one agent alone was told, see `game.secrets`; empty where nobody names any.
        answering: Agents whose actions the environment reads as answers; empty without secrets.
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
    secrets: tuple[Secret, ...] = ()
    answering: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """True if the task was solved."""
        return any(outcome is not None and outcome.success for outcome in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        outcomes: list[dict[str, Any] | None] = []
        for outcome in self.outcomes:
            # `asdict` copies a mapping as its own type, which JSON may not know: details are a plain dict.
            outcomes.append(None if outcome is None else asdict(outcome) | {"detail": dict(outcome.detail)})
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        plain["turns"] = [turn.to_dict() for turn in self.turns]
        plain |= {"outcomes": outcomes, "rewards": list(self.rewards)}
        secrets, answering = plain.pop("secrets"), plain.pop("answering")
        if secrets:  # left out where there are none: so they are in records made before they existed
            plain |= {"secrets": [secret._asdict() for secret in secrets], "answering": list(answering)}
        return plain | {"settings": dict(self.settings), "terms": dict(self.terms)}

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
            turns = []
            for turn in plain["turns"]:
                visible = tuple((place[0], place[1]) for place in turn["visible"])
                shortened = tuple(turn.get("shortened", ()))  # records without it are the rule
                turns.append(Turn(**{**turn, "visible": visible, "shortened": shortened}))
            outcomes = cls.outcomes_of(plain["outcomes"])
            plain.update(turns=tuple(turns), outcomes=outcomes, rewards=tuple(plain["rewards"]))
            if secrets := plain.get("secrets"):
                known = tuple(Secret(**secret) for secret in secrets)
                plain.update(secrets=known, answering=tuple(plain["answering"]))
            return cls(**plain)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"this is no record of an episode: {type(error).__name__}: {error}") from error

    @staticmethod
    def outcomes_of(plain: Iterable[Mapping[str, Any] | None]) -> tuple[Outcome | None, ...]:
        """Read the JSON form of `outcomes`."""
        outcomes: list[Outcome | None] = []
        for outcome in plain:
            if outcome is None:
                outcomes.append(None)
            else:
                outcomes.append(Outcome(**{**outcome, "events": tuple(outcome.get("events", ()))}))
        return tuple(outcomes)

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
