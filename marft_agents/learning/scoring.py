"""What a policy says of recorded actions: the one place where the learner runs the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from marft_agents.generation.sampling import SamplingLaw
from marft_agents.learning.token_log_probs import TokenScores, action_hidden, plan_micro_batches, score_tokens
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.trajectory import Action, FloatArray


class Scorer:
    """Scores actions under the sampling law.

    Args:
        law: under which they were sampled.
        micro_batch: most actions per forward pass.
    """

    def __init__(self, law: SamplingLaw, micro_batch: int) -> None:
        self.law = law
        self.micro_batch = micro_batch

    def micro_batches(self, actions: Sequence[Action]) -> list[list[int]]:
        """Cut actions into forward passes of similar sequences; return the indices of each."""
        sequences = [np.concatenate([action.prompt_ids, action.token_ids]) for action in actions]
        return plan_micro_batches(sequences, self.micro_batch)

    def score(
        self, base: AdaptedBase, adapter: str | None, actions: Sequence[Action], *, entropy_gradient: bool = False
    ) -> TokenScores:
        """Return log-probs and entropies of the recorded tokens, flat over the actions, with their graph.

        Args:
            base: the model.
            adapter: which it wears; None: the bare base.
            actions: one forward pass.
            entropy_gradient: keep the graph of the entropy.
        """
        tokens = torch.as_tensor(np.concatenate([a.token_ids for a in actions]), dtype=torch.long, device=base.device)
        supports = [ids for a in actions for ids in (a.support or [None] * len(a.token_ids))]
        with base.wearing(adapter):
            hidden = action_hidden(
                base.trunk, [a.prompt_ids for a in actions], [a.token_ids for a in actions], base.device
            )
            return score_tokens(
                base.head,
                hidden,
                tokens,
                self.law,
                supports if any(ids is not None for ids in supports) else None,
                entropy_gradient=entropy_gradient,
            )

    @torch.no_grad()
    def logprobs(self, base: AdaptedBase, adapter: str | None, actions: Sequence[Action]) -> list[FloatArray]:
        """Return the log-probs [T] of each action's tokens, in as many passes as needed, without a graph."""
        found: dict[int, FloatArray] = {}
        for part in self.micro_batches(actions):
            scores: Tensor = self.score(base, adapter, [actions[i] for i in part]).logprobs
            flat = scores.float().cpu().numpy()
            cuts = np.cumsum([len(actions[i].token_ids) for i in part])[:-1]
            found.update(zip(part, np.split(flat, cuts), strict=True))
        return [found[i] for i in range(len(actions))]
