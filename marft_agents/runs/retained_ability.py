"""Log-likelihoods of fixed texts under each adapter of a team and under its bare base.

The base is the team before training: an adapter starts as the base itself. The texts are plain, without a chat
template, and none is sampled, so that the same team always has the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.policies.language_model import LanguageModelTeam

Floats = npt.NDArray[np.float64]
_PROMPT = "Question: {question}\nAnswer:"
_TOKENS_AT_ONCE = 2048


@dataclass(frozen=True)
class Question:
    """A question with options.

    Attributes:
        text: Text of the question.
        choices: All options, the right one among them.
        answer: One of the choices.
    """

    text: str
    choices: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Ability:
    """Result of one adapter, or of the base.

    Attributes:
        nll: Mean negative log-likelihood per token of each sentence, nats, float64 [sentences]; the first token, which
            nothing precedes, is not counted.
        right: 1 where the right option of a question has the highest log-prob, float64 [questions]; a tie is wrong.
    """

    nll: Floats
    right: Floats

    @property
    def perplexity(self) -> float:
        """Perplexity exp(mean of `nll`), in which all sentences count alike."""
        return float(np.exp(self.nll.mean()))


def abilities(
    team: LanguageModelTeam, sentences: Sequence[str], questions: Sequence[Question]
) -> Mapping[str, tuple[Ability, Ability]]:
    """Measure the base and the trained adapter of each policy of a team.

    Args:
        team: Team with at least one adapter.
        sentences: Texts of at least two tokens each.
        questions: Questions with options.

    Returns:
        The abilities without and with the adapter, by name of the policy; each base is measured once.

    Raises:
        ValueError: No agent of the team has an adapter.
    """
    local_agents = {policy: team.local_agent(agents[0]) for policy, agents in team.policies.items()}
    if not local_agents:
        raise ValueError("no agent of the team has an adapter: wanted a team that can be trained")
    bare = {id(base): ability(base, None, sentences, questions) for base in team.bases}
    return {
        policy: (bare[id(local.base)], ability(local.base, local.adapter, sentences, questions))
        for policy, local in local_agents.items()
    }


def ability(base: AdaptedBase, adapter: str | None, sentences: Sequence[str], questions: Sequence[Question]) -> Ability:
    """Measure one adapter; None is the bare base."""

    def encode(text: str) -> list[int]:
        ids: list[int] = base.tokenizer.encode(text, add_special_tokens=False)
        return ids

    rows = [(ids, 1) for ids in map(encode, sentences)]
    for question in questions:
        prompt = _PROMPT.format(question=question.text)
        rows += [(encode(f"{prompt} {choice}"), len(encode(prompt))) for choice in question.choices]
    found = log_likelihoods(base, adapter, rows)
    count = len(sentences)
    nll = np.array([-value / (len(ids) - 1) for value, (ids, _) in zip(found[:count], rows[:count], strict=True)])
    right, place = [], count
    for question in questions:
        scores = found[place : place + len(question.choices)]
        place += len(question.choices)
        best = [choice for choice, score in zip(question.choices, scores, strict=True) if score == max(scores)]
        right.append(float(best == [question.answer]))
    return Ability(nll, np.array(right))


@torch.no_grad()
def log_likelihoods(base: AdaptedBase, adapter: str | None, rows: Sequence[tuple[Sequence[int], int]]) -> list[float]:
    """Return the log-likelihood of the end of each row, in nats.

    Args:
        base: Base model with its adapters.
        adapter: Adapter that is active; None is the bare base.
        rows: Token ids, and the place from which on they are scored, at least 1.

    Raises:
        ValueError: A row without a token to score.
    """
    if short := [ids for ids, start in rows if not 1 <= start < len(ids)]:
        raise ValueError(f"found a text of {len(short[0])} tokens without one to score: wanted longer texts")
    by_length = sorted(range(len(rows)), key=lambda place: len(rows[place][0]))
    found = [0.0] * len(rows)
    while by_length:
        longest = len(rows[by_length[-1]][0])
        batch = [by_length.pop() for _ in range(min(len(by_length), max(1, _TOKENS_AT_ONCE // longest)))]
        # Padding stands at the right, where no token of a causal model looks: it needs no mask. [B, T]
        ids = torch.zeros((len(batch), longest), dtype=torch.long, device=base.device)
        for line, place in enumerate(batch):
            ids[line, : len(rows[place][0])] = torch.as_tensor(list(rows[place][0]))
        with base.active_adapter(adapter):
            logits = base.peft(input_ids=ids).logits[:, :-1].float()  # [B, T-1, V]: logits[t] predicts token t + 1
        scores = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0].double()  # [B, T-1]
        for line, place in enumerate(batch):
            tokens, start = rows[place]
            found[place] = float(scores[line, start - 1 : len(tokens) - 1].sum())
    return found
