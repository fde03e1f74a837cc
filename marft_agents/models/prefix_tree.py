"""Sequences that share prefixes, laid out so that no shared token is computed twice.

Agents of a team and samples of a group share long prompts (system prompt, worked example, question), and late in
training whole actions are alike. A batch of sequences is cut at a few positions into levels; a level holds the
distinct prefixes that reach into it, and each of its rows continues one row of the level before. One forward pass runs
over all distinct tokens, and attention (`attention.TreeAttention`) goes level by level, so this is exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marft_agents.trajectory import IntArray

Indices = npt.NDArray[np.int64]

PASS_COST = 8.0  # tokens that could have been computed in the fixed cost of one more level
MAX_CANDIDATES = 24  # cut positions that are considered


@dataclass(frozen=True)
class Level:
    """One level of the tree: a stretch [start, start + W) of every distinct prefix that reaches into it.

    Attributes:
        start: position of the first token.
        tokens: int64 [R, W], zero where a sequence has ended.
        mask: bool [R, W], True at real tokens.
        parents: int64 [R], the row of the previous level that each row continues (empty for the first).
        row_of: int64 [B], the row that holds each sequence's tokens, -1 if it ended before.
    """

    start: int
    tokens: Indices
    mask: npt.NDArray[np.bool_]
    parents: Indices
    row_of: Indices

    @property
    def width(self) -> int:
        """W, tokens per row."""
        return int(self.tokens.shape[1])


def build_levels(sequences: Sequence[IntArray], cuts: Sequence[int] | None = None) -> list[Level]:
    """Lay sequences out as levels.

    Args:
        sequences: token ids, B of them, each of at least one token.
        cuts: increasing positions where a level ends and the next begins; None chooses those that leave the
            fewest tokens to compute.
    """
    longest = max(map(len, sequences))
    bounds = [0, *(choose_cuts(sequences) if cuts is None else cuts), longest]
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
            key = (int(previous[i]), piece.tobytes())  # same parent and same stretch: same prefix
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


def choose_cuts(sequences: Sequence[IntArray]) -> list[int]:
    """Choose the cut positions that leave the fewest tokens to compute, by dynamic programming.

    A level from a to b costs its rows (distinct prefixes of length b among sequences longer than a) times b - a,
    plus `PASS_COST`.

    Args:
        sequences: token ids, B of them.

    Returns:
        Increasing positions strictly between 0 and the longest length.
    """
    lengths = np.asarray([len(s) for s in sequences])
    longest = int(lengths.max())
    ordered = sorted(sequences, key=lambda s: s.tolist())
    sorted_lengths = np.asarray([len(s) for s in ordered])
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
            cost = best[i] + PASS_COST
            cost += _rows(sorted_lengths, shared, points[i], points[j]) * (points[j] - points[i])
            if cost < best[j]:
                best[j], came_from[j] = cost, i
    cuts, j = [], came_from[-1]
    while j:
        cuts.append(points[j])
        j = came_from[j]
    return cuts[::-1]


def common_prefix(a: IntArray, b: IntArray) -> int:
    """Return how many first tokens two sequences have in common."""
    shortest = min(len(a), len(b))
    different = np.nonzero(a[:shortest] != b[:shortest])[0]
    return int(different[0]) if len(different) else shortest


def _rows(lengths: Indices, shared: Indices, start: int, end: int) -> int:
    """Count distinct prefixes of length `end` among sorted sequences longer than `start`."""
    alive = np.nonzero(lengths > start)[0]
    if len(alive) == 0:
        return 0
    count = 1
    for a, b in itertools.pairwise(alive):
        common = int(shared[a:b].min())
        same = common >= end or (lengths[a] == lengths[b] == common)
        count += not same
    return count
