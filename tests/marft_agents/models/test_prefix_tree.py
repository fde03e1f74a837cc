"""Where sequences are cut and how rows share their beginnings, against every other way of doing it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from marft_agents.generation.kv_cache import families
from marft_agents.models import prefix_tree
from marft_agents.models.prefix_tree import choose_cuts, common_prefix


def drawn(seed, *, rows=6, longest=8):
    """Sequences over two symbols, so that beginnings are shared at every depth."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2, rng.integers(1, longest + 1)).astype(np.int32) for _ in range(rows)]


def shared(sequences):
    """Return how many first tokens all have in common."""
    return min(common_prefix(sequences[0], other) for other in sequences)


def cost(sequences, cuts):
    """Real tokens of every level, its copied keys, its pairs of query and key, and a fixed cost for each."""
    total = 0.0
    for start, end in itertools.pairwise([0, *cuts, max(map(len, sequences))]):
        rows = {tuple(s[:end].tolist()) for s in sequences if len(s) > start}
        total += sum(len(row) - start for row in rows) + prefix_tree.PASS_COST
        total += len(rows) * (prefix_tree.KEY_COST * start + prefix_tree.PAIR_COST * (end - start) * end)
    return total


@pytest.mark.parametrize("costs", [(0.0, 0.0, 0.0), (1.0, 0.0, 0.05), (2.5, 0.1, 0.0), (0.5, 0.05, 0.02)])
@pytest.mark.parametrize("seed", range(8))
def test_no_other_cuts_cost_less(seed, costs, monkeypatch):
    for name, value in zip(("PASS_COST", "KEY_COST", "PAIR_COST"), costs, strict=True):
        monkeypatch.setattr(prefix_tree, name, value)
    sequences = drawn(seed)
    inner = range(1, max(map(len, sequences)))
    every = itertools.chain.from_iterable(itertools.combinations(inner, k) for k in range(len(inner) + 1))
    assert cost(sequences, choose_cuts(sequences)) == pytest.approx(min(cost(sequences, c) for c in every))


def test_a_level_is_worth_eight_tokens():
    def cuts(common):
        return choose_cuts([np.array([7] * common + [last], np.int32) for last in (1, 2)])

    assert cuts(8) == []  # computing eight tokens twice costs less than one more level
    assert cuts(9) == [9]


def test_rows_that_only_end_are_not_cut():
    """Padding costs attention alone, a cut copies the keys of all rows."""
    heads = np.arange(100, dtype=np.int32)
    sequences = [np.append(heads, np.full(length, length, np.int32)) for length in range(10, 26)]
    assert choose_cuts(sequences) == [100]


def test_a_larger_model_computes_fewer_tokens_twice():
    """Copied keys grow with the hidden size, computed tokens with its square."""
    heads, rng = np.arange(60, dtype=np.int32), np.random.default_rng(0)
    tails = [np.concatenate([[number // 2], rng.integers(100, 200, 10)]) for number in range(64)]
    sequences = [np.concatenate([heads, tail]).astype(np.int32) for tail in tails]
    assert choose_cuts(sequences) == [60]
    assert choose_cuts(sequences, 8192) == [60, 61]


def test_of_many_positions_evenly_spread_ones_are_considered(monkeypatch):
    for name in ("PASS_COST", "KEY_COST"):
        monkeypatch.setattr(prefix_tree, name, 0.0)
    sequences = [np.full(length, 7, np.int32) for length in range(10, 90, 10)]  # each begins as the next
    assert choose_cuts(sequences) == [10, 20, 30, 40, 50, 60, 70]
    monkeypatch.setattr(prefix_tree, "MAX_CANDIDATES", 7)
    assert choose_cuts(sequences) == [10, 20, 30, 40, 50, 60, 70]
    monkeypatch.setattr(prefix_tree, "MAX_CANDIDATES", 3)
    assert choose_cuts(sequences) == [10, 40, 70]


@pytest.mark.parametrize("seed", range(12))
def test_families_store_no_more_than_one_family_or_a_family_for_each(seed):
    prompts = drawn(seed, rows=5 + seed % 2)
    common = min(shared(prompts), min(map(len, prompts)) - 1)
    found = families(prompts)
    stored = sum(f.shared + sum(len(prompts[row]) - f.shared for row in f.rows) for f in found)
    assert stored <= common + sum(len(prompt) - common for prompt in prompts)
    assert stored <= sum(map(len, prompts))
    for family in found:  # as much is shared as can be
        own = [prompts[row] for row in family.rows]
        assert family.shared == min(shared(own), min(map(len, own)) - 1)


def test_families_by_hand():
    alike, longer, other = ([1, 2, 3], [1, 2, 3, 4], [5, 6])
    found = families([np.array(ids, np.int32) for ids in (alike, other, longer, alike)])
    assert sorted((sorted(f.rows), f.shared) for f in found) == [([0, 2, 3], 2), ([1], 1)]  # last tokens are not shared
    assert families([]) == []


@pytest.mark.parametrize(("deeper", "apart"), [(3, False), (4, True)])
def test_rows_go_apart_where_that_stores_fewer_tokens(deeper, apart):
    """Two pairs that share two tokens, each pair `deeper`: 2 + 4 (deeper - 1) tokens together, 2 (deeper + 2) apart."""
    prompts = [np.array([1, 2] + [first] * (deeper - 2) + [last], np.int32) for first in (3, 4) for last in (5, 6)]
    found = families(prompts)
    wanted = [((0, 1), deeper), ((2, 3), deeper)] if apart else [((0, 1, 2, 3), 2)]
    assert sorted((f.rows, f.shared) for f in found) == wanted
