"""Scores of actions for algorithms written elsewhere, and checks of what those hand in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from marft_agents.models.context_window import ContextOverflowError
from marft_agents.models.model_error import ModelError
from marft_agents.policies.token_log_probs import TokenScores
from marft_agents.trajectory import Action, FloatArray, IntArray

if TYPE_CHECKING:
    from marft_agents.models.adapted_base import AdaptedBase
    from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent

TokenIds = IntArray | Sequence[int] | Tensor
NOT_RECORDED: FloatArray = np.zeros(0, np.float32)  # log-probs of an action that is to be scored


@dataclass(frozen=True)
class ActionScores(TokenScores):
    """Log-probs and entropies of the tokens of some actions, flat, action by action.

    Attributes:
        lengths: Number of tokens of each action; they add up to N.
    """

    lengths: tuple[int, ...]

    @property
    def action_logprobs(self) -> Tensor:
        """Float32 [number of actions], log-prob of each whole action: the sum over its tokens."""
        return torch.stack([own.sum() for own in self.logprobs.split(self.lengths)])

    @property
    def action_entropies(self) -> Tensor:
        """Float32 [number of actions], summed entropy of the distributions at the tokens of each action, in nats."""
        return torch.stack([own.sum() for own in self.entropy.split(self.lengths)])


def local_model(team: LanguageModelTeam, agent: str) -> LocalAgent:
    """Return the base and the adapter that an agent plays.

    Raises:
        ModelError: The agent plays no model of this process.
    """
    if agent in team.local_agents:
        return team.local_agents[agent]
    kind = "is remote" if agent in team.partners else "is none of this team (a scripted agent, or a mistyped name)"
    raise ModelError(
        f"agent {agent!r} {kind}: it plays no model of this process, so it has no log-probs, features and parameters; "
        f"wanted one of {', '.join(team.local_agents) or 'none'}"
    )


def trained_adapter(team: LanguageModelTeam, agent: str) -> tuple[AdaptedBase, str]:
    """Return the base and the adapter of an agent that can be trained.

    Raises:
        ModelError: The agent plays no model of this process, or a frozen one.
    """
    local = local_model(team, agent)
    if local.adapter is None:
        raise ModelError(
            f"agent {agent!r} plays {local.base.name!r} frozen, without an adapter: it has no parameters to train; ask "
            "for its log-probs under torch.no_grad()"
        )
    return local.base, local.adapter


def refuse_open_sessions(base: AdaptedBase) -> None:
    """Refuse a gradient while a generation session holds keys and values of the present weights.

    Raises:
        RuntimeError: A session is open.
    """
    if base.sessions:
        raise RuntimeError(
            f"{len(base.sessions)} generation session(s) on {base.name!r} are open, wanted none for a gradient: a "
            "session keeps what it computed with the present weights. Train after `collect` has returned, or close the "
            "session first; scores under torch.no_grad() are allowed"
        )


def checked_actions(
    team: LanguageModelTeam, agent: str, prompts: Sequence[TokenIds], actions: Sequence[Action | TokenIds]
) -> list[Action]:
    """Return actions as records with their prompts, after checking both.

    Args:
        team: Team of the agent.
        agent: Agent with a local model.
        prompts: Token ids of each prompt, [P_i].
        actions: Sampled actions, or their token ids, [T_i].

    Raises:
        ValueError: The numbers differ, there is none, or ids are not those of the agent's tokenizer.
        ContextOverflowError: A prompt with its action is longer than the agent's context window.
    """
    if len(prompts) != len(actions) or not len(prompts):
        raise ValueError(
            f"agent {agent!r}: found {len(prompts)} prompts and {len(actions)} actions, wanted as many, at least one"
        )
    base, window = team.local_agents[agent].base, team.windows[agent]
    records = []
    for number, (prompt, action) in enumerate(zip(prompts, actions, strict=True)):
        where = f"agent {agent!r}, action {number}"
        sampled = action if isinstance(action, Action) else None
        if sampled is not None and not len(sampled.token_ids):
            raise ValueError(f"{where}: it has no tokens; a scripted, random or remote policy wrote it, not a model")
        read = _ids(f"agent {agent!r}, prompt {number}", prompt, base)
        said = _ids(where, action if sampled is None else sampled.token_ids, base)
        if len(read) + len(said) > window:
            raise ContextOverflowError(
                f"{where}: found {len(read)} tokens of the prompt and {len(said)} of the action, wanted at most "
                f"{window} together, the agent's context window: encode observations with team.encode, which shortens "
                "them"
            )
        if sampled is None:
            if team.sampling.restricts_support:
                raise ValueError(
                    f"{where}: found token ids alone, wanted the Action that was sampled: with top-k or top-p its "
                    "log-probs need the tokens that could have been sampled (Action.support)"
                )
        else:
            _check_text(where, sampled, base)
        support = None if sampled is None else sampled.support
        records.append(Action("", read, said, NOT_RECORDED, True, support))
    return records


def _ids(where: str, given: Any, base: AdaptedBase) -> IntArray:
    """Return token ids as int32 [N], N >= 1."""
    if isinstance(given, str):
        raise ValueError(f"{where}: found text, wanted token ids: team.encode(agent, observation) makes them")
    ids = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
        raise ValueError(f"{where}: found {ids.dtype} of shape {ids.shape}, wanted whole numbers of shape (N,), N >= 1")
    vocabulary = base.head.out_features
    wrong = ids[(ids < 0) | (ids >= vocabulary)]
    if len(wrong):
        raise ValueError(
            f"{where}: found token {wrong[0]}, wanted 0 to {vocabulary - 1}, the vocabulary of {base.name!r}: they "
            "are of another tokenizer, or padding"
        )
    return ids.astype(np.int32, copy=False)


def _check_text(where: str, action: Action, base: AdaptedBase) -> None:
    """Refuse a record whose tokens mean something else here than where they were sampled."""
    text = base.text_of(action.token_ids)
    if not text.startswith(action.text):  # a stop text may have ended the action's text before its tokens
        raise ValueError(
            f"{where}: its tokens mean {text[:40]!r} to {base.name!r}, wanted {action.text[:40]!r}, its text: another "
            "tokenizer made them, such as that of another agent's model"
        )
