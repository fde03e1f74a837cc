"""Size of forward passes: the sequences and distinct tokens that one pass holds, by the memory of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from marft_agents.generation.engine_settings import total_memory
from marft_agents.learning.ranks import ALONE, Ranks
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.prefix_tree import common_prefix
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.trajectory import IntArray

CPU_SEQUENCES = 16  # larger passes are no faster there
CPU_RECOMPUTED = 0.5
SPARED_TOKENS = 512  # passes of so few tokens store all layers: it is less than larger ones store of some
MEMORY_SHARE = 0.5  # of what a GPU has beside the weights; the rest is for the KV cache, the head and temporaries
FEWEST_TOKENS = 8192  # a pass of fewer leaves a GPU idle: rather recompute layers
RECOMPUTED = (0.0, 0.5, 1.0)


class PassSize:
    """Bounds on one forward pass with gradient, shared by all that runs the models of a learner.

    Args:
        sequences: Most sequences of a pass; None: any number.
        tokens: Most distinct tokens of a pass, those that shared prefixes do not repeat; None: any number. A longer
            sequence has a pass of its own.

    Attributes:
        largest: Distinct tokens and sequences of the pass with most tokens since `start`.
    """

    def __init__(self, sequences: int | None, tokens: int | None = None) -> None:
        self.sequences, self.tokens = sequences, tokens
        self.largest = (0, 0)

    def start(self) -> None:
        """Forget the largest pass, at the beginning of an update."""
        self.largest = (0, 0)

    def plan(self, sequences: Sequence[IntArray], ranks: Ranks = ALONE, *, factor: int = 1) -> list[list[int]]:
        """Cut this rank's sequences into passes, sorted so that neighbours share prefixes.

        Args:
            sequences: Token ids of each sequence, int32 [L_i].
            ranks: Processes that share the passes.
            factor: Multiple of the bounds, for passes without gradient.

        Returns:
            Indices of the sequences in each pass; every sequence appears once, on one rank. See `Ranks.even` for
            empty ones.
        """
        # In the order of a dictionary, sequences that share most of their beginning stand side by side.
        order = sorted(range(len(sequences)), key=lambda i: sequences[i].tolist())
        order = order[ranks.own([len(sequences[i]) for i in order])]
        passes: list[list[int]] = []
        held = 0  # distinct tokens of the last pass
        for previous, i in zip([None, *order], order, strict=False):
            new = len(sequences[i])
            if previous is not None:
                new -= common_prefix(sequences[previous], sequences[i])
            if not passes or self._full(len(passes[-1]) + 1, held + new, factor):
                passes.append([])
                held, new = 0, len(sequences[i])  # nothing to share with in a new pass
            passes[-1].append(i)
            held += new
            self.largest = max(self.largest, (held, len(passes[-1])))
        return ranks.even(passes)

    def _full(self, sequences: int, tokens: int, factor: int) -> bool:
        """Return True if a pass may not hold so much."""
        if self.sequences is not None and sequences > factor * self.sequences:
            return True
        return self.tokens is not None and tokens > factor * self.tokens


def fitted(settings: LearnerSettings, team: LanguageModelTeam) -> LearnerSettings:
    """Return settings with the defaults of the team's devices for the size of passes and the recomputed layers.

    On GPUs they follow from the total memory and from the models, never from what is free: so a run repeats. There a
    pass is bounded in tokens, on a CPU in sequences.

    Args:
        settings: Settings of the learner; only those that are None are replaced.
        team: Team that is trained.
    """
    if any(base.device.type != "cuda" for base in team.bases):
        defaults: dict[str, Any] = {"micro_batch": CPU_SEQUENCES, "gradient_checkpointing": CPU_RECOMPUTED}
    else:
        defaults = _fitted_to_gpus(team, settings.gradient_checkpointing)
    missing = {}
    for name, value in defaults.items():
        if getattr(settings, name) is None:
            missing[name] = value
    return replace(settings, **missing)


def _fitted_to_gpus(team: LanguageModelTeam, recomputed: float | None) -> dict[str, float]:
    """Return the tokens of a pass, and the least recomputed layers with which a whole context window fits."""
    wanted = max([FEWEST_TOKENS, *team.windows.values()])
    shares = RECOMPUTED if recomputed is None else (float(recomputed),)
    fitting = {}
    for share in shares:  # ascending; the last one is taken even if too little fits
        fitting = {
            "micro_batch_tokens": max(1, min(_tokens_that_fit(base, team, share) for base in team.bases)),
            "gradient_checkpointing": share,
        }
        if fitting["micro_batch_tokens"] >= wanted:
            break
    return fitting


def _tokens_that_fit(base: Any, team: LanguageModelTeam, recomputed: float) -> int:
    """Return the distinct tokens whose activations fit on the device of a base beside all weights there."""
    weights = 0
    for other in team.bases:
        if other.device == base.device:
            for parameter in other.peft.parameters():
                weights += parameter.numel() * parameter.element_size()
    room = max(0, total_memory(base.device) - weights)
    return int(MEMORY_SHARE * room / bytes_per_token(base.peft.config, base.dtype, recomputed))


def bytes_per_token(config: Any, dtype: torch.dtype, recomputed: float) -> float:
    r"""Return an estimate of what the backward pass stores for a token of a decoder-only trunk, in bytes.

    .. math::
        s L \left((1 - \rho) (16 d + 4 m) + d\right)

    with s bytes of a number, L layers, the recomputed share rho, the hidden size d and the feed-forward size m. On an
    H200 an update of Qwen2.5-0.5B's shape stored 10 d + 3 m in each layer; the rest is a margin.

    Args:
        config: Configuration of the model.
        dtype: Dtype of the trunk.
        recomputed: Share of the layers that the backward pass recomputes.
    """
    width, layers = config.hidden_size, config.num_hidden_layers
    inner = getattr(config, "intermediate_size", None) or 4 * width
    stored = (1 - recomputed) * (16 * width + 4 * inner) + width
    return float(torch.finfo(dtype).bits // 8 * layers * stored)
