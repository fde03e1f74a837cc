"""Log-probs and entropies of recorded actions, in passes of bounded size: here the learner runs a policy's model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.pass_size import PassSize
from marft_agents.learning.ranks import ALONE, Ranks
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.policies.token_log_probs import TokenScores, score_pass
from marft_agents.trajectory import Action, FloatArray


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
        return score_pass(base, adapter, actions, self.sampling, entropy_gradient=entropy_gradient)

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
