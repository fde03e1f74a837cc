"""Prefix tree of a batch of sequences, laid out so that no shared token is computed twice.

Agents of a team and samples of a group share long prompts (system prompt, worked example, question). Late in training
whole actions are alike. A batch of sequences is cut at a few positions into levels. A level holds the distinct
prefixes that reach into it, and each of its rows continues one row of the previous level. One forward pass runs over
all distinct tokens. Attention (`tree_attention.TreeAttention`) runs level by level, so the result is exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marft_agents.trajectory import IntArray

Indices = npt.NDArray[np.int64]

# Costs of a level in units of one computed token, forward and backward: between those of SmolLM2-135M (hidden size 576)
# in float32 and in bfloat16 on one CPU thread. Attention grows with the hidden size, a token with its square.
PASS_COST = 8.0  # a level at all
KEY_COST = 0.015  # a key and value copied from a parent to one of its rows
PAIR_COST = 0.0015  # a query that attends to a key, padding included
MEASURED_SIZE = 576  # hidden size for which KEY_COST and PAIR_COST hold
MAX_CANDIDATES = 24  # most cut positions to consider


@dataclass(frozen=True)
class Level:
    """One level of the tree: the positions [start, start + W) of every distinct prefix that reaches into it.

    Attributes:
        start: Position of the first token.
        tokens: Token ids, int64 [R, W], zero after the end of a sequence.
        mask: True at real tokens, bool [R, W].
        parents: Row of the previous level that each row continues, int64 [R]; zeros in the first level.
        row_of: Row that holds each sequence's tokens, int64 [B]; -1 if the sequence ended before.
    """

    start: int
    tokens: Indices
    mask: npt.NDArray[np.bool_]
    parents: Indices
    row_of: Indices

    @property
    def width(self) -> int:
        """Number of tokens per row, W."""
        return int(self.tokens.shape[1])


def build_levels(
    sequences: Sequence[IntArray], cuts: Sequence[int] | None = None, *, hidden_size: int = MEASURED_SIZE
) -> list[Level]:
    """Lay sequences out as the levels of a prefix tree.

    Args:
        sequences: Token ids of B sequences, each of at least one token.
        cuts: Increasing positions at which a level ends and the next begins; None chooses those that cost least.
        hidden_size: Hidden size of the model, for the costs.
    """
    longest = max(map(len, sequences))
    bounds = [0, *(choose_cuts(sequences, hidden_size) if cuts is None else cuts), longest]
    levels: list[Level] = []
    previous = np.zeros(len(sequences), np.int64)
    for start, end in itertools.pairwise(bounds):
        row_of = np.full(len(sequences), -1, np.int64)
        rows: dict[tuple[int, bytes], int] = {}
        pieces: list[IntArray] = []
        for i, sequence in enumerate(sequences):
            if len(sequence) <= start:
                continue
            piece = sequence[start:end]
            key = (int(previous[i]), piece.tobytes())  # same parent and same tokens: same prefix
            if key not in rows:
                rows[key] = len(pieces)
                pieces.append(piece)
            row_of[i] = rows[key]
        tokens, mask = pad(pieces, end - start)
        levels.append(Level(start, tokens, mask, np.asarray([parent for parent, _ in rows], np.int64), row_of))
        previous = row_of
    return levels


def pad(pieces: Sequence[IntArray], width: int) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Pad pieces on the right with zeros to [R, width]; return them with the mask of real tokens."""
    tokens = np.zeros((len(pieces), width), np.int64)
    mask = np.zeros((len(pieces), width), bool)
    for i, piece in enumerate(pieces):
        tokens[i, : len(piece)] = piece
        mask[i, : len(piece)] = True
    return tokens, mask


def choose_cuts(sequences: Sequence[IntArray], hidden_size: int = MEASURED_SIZE) -> list[int]:
    r"""Choose the cut positions that cost least, by dynamic programming.

    A level from a to b with R rows and N real tokens costs

    .. math::
        N + c_{pass} + (c_{key} R a + c_{pair} R (b - a) b) \frac{576}{d}

    A cut where rows diverge saves tokens. A cut where rows only end saves none, since padding is attended to but not
    computed elsewhere.

    Args:
        sequences: Token ids of B sequences.
        hidden_size: Hidden size d of the model.

    Returns:
        Increasing positions strictly between 0 and the longest length.
    """
    ordered = sorted(sequences, key=lambda s: s.tolist())
    lengths = np.asarray([len(s) for s in ordered])
    longest = int(lengths.max())
    shared = np.asarray([common_prefix(a, b) for a, b in itertools.pairwise(ordered)], np.int64)
    candidates = {int(c) for c in shared} | {int(n) for n in lengths}
    inner = sorted(c for c in candidates if 0 < c < longest)
    if len(inner) > MAX_CANDIDATES:
        picks = np.linspace(0, len(inner) - 1, MAX_CANDIDATES).round().astype(int)
        inner = [inner[i] for i in dict.fromkeys(picks.tolist())]
    points = [0, *inner, longest]
    best = [0.0] + [np.inf] * (len(points) - 1)
    came_from = [0] * len(points)
    for j in range(1, len(points)):
        for i in range(j):
            cost = best[i] + _level_cost(lengths, shared, points[i], points[j], MEASURED_SIZE / hidden_size)
            if cost < best[j]:
                best[j], came_from[j] = cost, i
    cuts, j = [], came_from[-1]
    while j:
        cuts.append(points[j])
        j = came_from[j]
    return cuts[::-1]


def _level_cost(lengths: Indices, shared: Indices, start: int, end: int, attention: float) -> float:
    """Return the cost of a level; see `choose_cuts`.

    Args:
        lengths: Lengths of the sorted sequences, int64 [B].
        shared: Common prefix of each sequence with the next one, int64 [B - 1].
        start: Position of the level's first token.
        end: Position after its last one.
        attention: Factor of the costs of attention.
    """
    alive = np.nonzero(lengths > start)[0]  # never empty: `start` is less than the longest length
    ends = np.minimum(lengths[alive], end)
    # common prefixes of neighbours among the alive
    common = np.minimum.reduceat(shared[: alive[-1]], alive[:-1]) if len(alive) > 1 else shared[:0]
    common = np.minimum(common, end)
    # a sequence without a row of its own has the same tokens up to `end` as the one before
    own = np.append(True, (common < ends[1:]) | (common < ends[:-1]))
    rows, tokens = int(own.sum()), int((ends[own] - start).sum())
    return tokens + PASS_COST + rows * (KEY_COST * start + PAIR_COST * (end - start) * end) * attention


def common_prefix(a: IntArray, b: IntArray) -> int:
    """Return the length of the common prefix of two sequences, in tokens."""
    shortest = min(len(a), len(b))
    different = np.nonzero(a[:shortest] != b[:shortest])[0]
    return int(different[0]) if len(different) else shortest
