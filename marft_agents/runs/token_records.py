"""Records of sampled tokens: the text, log-prob and advantage of each token of an action."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from marft_agents.learning.batch import Batch
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.trajectory import SampledTurn, Trajectory

LONGEST_CHARACTER = 4  # bytes of a UTF-8 character, which byte-level tokens may split
DIGITS = 4  # after the point, of recorded log-probs and advantages


class TokenRecorder:
    """Adds the tokens of an update's actions to the records of its episodes.

    Args:
        team: Team whose tokenizers decode the tokens.
    """

    def __init__(self, team: LanguageModelTeam) -> None:
        self._team = team
        self._advantages: dict[tuple[int, int], list[float]] = {}
        self._trained: dict[int, int] = {}

    def begin(self, trained: Sequence[Trajectory]) -> None:
        """Start an update that trains on these trajectories; forget the one before."""
        self._advantages = {}
        self._trained = {id(trajectory): place for place, trajectory in enumerate(trained)}

    def take(self, batch: Batch) -> None:
        """Keep the advantages of a batch, as the objective uses them."""
        parts = np.split(batch.advantages, batch.decision_offsets[1:-1])
        for episode, turn, part in zip(batch.episode, batch.turn, parts, strict=True):
            self._advantages[int(episode), int(turn)] = [round(float(value), DIGITS) for value in part]

    def record(self, trajectory: Trajectory) -> list[dict[str, Any] | None]:
        """Return the record of each turn of a trajectory; None for a turn without tokens.

        A record holds `pieces` and `logprobs`, one entry a token, and `advantages`: one entry for the whole action
        where the action is the decision, one a token where tokens are, and none if the turn was not trained.
        """
        episode = self._trained.get(id(trajectory), -1)
        return [self._turn(turn, (episode, number)) for number, turn in enumerate(trajectory.turns)]

    def _turn(self, turn: SampledTurn, key: tuple[int, int]) -> dict[str, Any] | None:
        action = turn.action
        if not len(action.token_ids):
            return None
        tokenizer = self._team.local_agent(turn.agent).base.tokenizer
        return {
            "pieces": list(pieces_of(action.token_ids.tolist(), tokenizer.decode)),
            "logprobs": [round(float(value), DIGITS) for value in action.logprobs],
            "advantages": self._advantages.get(key, []),
        }


def pieces_of(token_ids: Sequence[int], decode: Callable[[list[int]], str]) -> Iterator[str]:
    """Yield the text of each token; a character that several tokens share belongs to the last of them.

    Args:
        token_ids: Ids of the tokens.
        decode: Maps ids to text, with U+FFFD for an unfinished character.
    """
    start = 0
    for end in range(1, len(token_ids) + 1):
        text = decode(list(token_ids[start:end]))
        if text.endswith("\ufffd") and end - start < LONGEST_CHARACTER and end < len(token_ids):
            yield ""
        else:
            yield text
            start = end
