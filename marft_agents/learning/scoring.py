"""Log-probs and entropies of recorded actions: the only place where the learner runs a policy's model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.pass_size import PassSize
from marft_agents.learning.ranks import ALONE, Ranks
from marft_agents.learning.token_log_probs import TokenScores, action_hidden, score_tokens
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.trajectory import Action, FloatArray, IntArray

NO_TOKENS: IntArray = np.zeros(0, np.int32)


def score_actions(
    base: AdaptedBase,
    hidden: Tensor,
    actions: Sequence[Action],
    sampling: SamplingParams,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """Compute log-probs and entropies of recorded tokens from the hidden states that predict them.

    Args:
        base: Base model, under the adapter that gave the hidden states.
        hidden: Hidden states [N, d] at the N tokens, from `action_hidden`.
        actions: Recorded actions, with N tokens in all.
        sampling: Sampling parameters of the recorded actions.
        entropy_gradient: True to keep the graph of the entropy.
    """
    token_ids = [NO_TOKENS]  # `concatenate` needs one array at least
    supports: list[IntArray | None] = []  # by token; None: every id could be sampled
    for action in actions:
        token_ids.append(action.token_ids)
        supports += action.support or [None] * len(action.token_ids)
    tokens = torch.as_tensor(np.concatenate(token_ids), dtype=torch.long, device=base.device)  # [N]
    # Without any restriction the whole row of logits is read, with no ids to gather.
    restricted = supports if any(ids is not None for ids in supports) else None
    return score_tokens(base.head, hidden, tokens, sampling, restricted, entropy_gradient=entropy_gradient)


class LogProbScorer:
    """Scores recorded actions under their sampling parameters.

    Args:
        sampling: Sampling parameters of the recorded actions.
        size: Most actions and tokens per forward pass.
        ranks: Processes that share the passes.
    """

    def __init__(self, sampling: SamplingParams, size: PassSize, ranks: Ranks = ALONE) -> None:
        self.sampling = sampling
        self.size = size
        self.ranks = ranks

    def micro_batches(self, actions: Sequence[Action]) -> list[list[int]]:
        """Return the action indices of each forward pass of this rank; similar sequences go together."""
        sequences = [np.concatenate([action.prompt_ids, action.token_ids]) for action in actions]
        return self.size.plan(sequences, self.ranks)

    def score(
        self, base: AdaptedBase, adapter: str | None, actions: Sequence[Action], *, entropy_gradient: bool = False
    ) -> TokenScores:
        """Compute log-probs and entropies of the recorded tokens, flat over the actions, with their graph.

        Args:
            base: Base model that holds the adapter.
            adapter: Name of the active adapter; None: the bare base.
            actions: Recorded actions of one forward pass; none for one that other ranks need (`Ranks.even`).
            entropy_gradient: True to keep the graph of the entropy.
        """
        prompts, token_ids = [a.prompt_ids for a in actions], [a.token_ids for a in actions]
        with base.active_adapter(adapter):
            hidden = action_hidden(base.trunk, prompts, token_ids, base.device)  # [N, d]
            return score_actions(base, hidden, actions, self.sampling, entropy_gradient=entropy_gradient)

    @torch.no_grad()
    def logprobs(self, base: AdaptedBase, adapter: str | None, actions: Sequence[Action]) -> list[FloatArray]:
        """Compute the token log-probs [T] of each action without a graph, in as many passes as needed, by all ranks."""
        lengths = [len(action.token_ids) for action in actions]
        scored: list[FloatArray] = [np.zeros(n, np.float32) for n in lengths]  # 0 where another rank scores
        for part in self.micro_batches(actions):
            flat: Tensor = self.score(base, adapter, [actions[i] for i in part]).logprobs.float().cpu()
            for i, own in zip(part, flat.split([lengths[i] for i in part]), strict=True):
                scored[i] = own.numpy()
        total = self.ranks.total(np.concatenate(scored))  # each rank scored its own: the sum is everyone's
        return np.split(total, np.cumsum(lengths)[:-1])
