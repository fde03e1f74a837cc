"""Hand-offs of a team: runs in which control goes back and forth, and loops among them."""

from __future__ import annotations

from collections.abc import Iterable

FREE_PASSES = 2
"""A pass and its return are work; more passes between the same two agents without another one are a loop."""

Pass = tuple[str, str]


def exchanges(passes: Iterable[Pass]) -> list[list[Pass]]:
    """Split hand-offs (giver, taker), in the order they were made, into maximal runs between the same two agents.

    Within a run every pass returns the one before it. Each pass belongs to one run.

    Examples:
        >>> exchanges([("a", "b"), ("b", "a"), ("a", "b"), ("b", "c")])
        [[('a', 'b'), ('b', 'a'), ('a', 'b')], [('b', 'c')]]
    """
    runs: list[list[Pass]] = []
    for giver, taker in passes:
        if runs and runs[-1][-1] == (taker, giver):
            runs[-1].append((giver, taker))
        else:
            runs.append([(giver, taker)])
    return runs


def loops(passes: Iterable[Pass]) -> list[list[Pass]]:
    """Return the hand-off loops: the runs of `exchanges` with more than `FREE_PASSES` passes."""
    return [run for run in exchanges(passes) if len(run) > FREE_PASSES]
