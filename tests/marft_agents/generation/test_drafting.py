"""Guessed tokens change how many passes an action takes, not what is sampled."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from marft_agents.generation import continuous_batching, decode_step
from marft_agents.generation.continuous_batching import Generation, Prompt
from marft_agents.generation.drafting import LONGEST_DRAFT, DraftLength, PromptLookup
from marft_agents.generation.prompt_tree import PromptTree
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.pretrained import load
from marft_agents.models.tree_attention import run
from tests.helpers.adapted_models import adapted, watch_passes, windowed_model

CPU = torch.device("cpu")
SAMPLINGS = {
    "plain": SamplingParams(max_new_tokens=24),
    "restricted": SamplingParams(temperature=0.5, top_k=5, top_p=0.9, max_new_tokens=24),
    "greedy": SamplingParams(temperature=0, max_new_tokens=24),
}


def repetitive(pretrained):
    """Return a model that samples few different tokens, so that many guesses are right."""
    base = adapted(pretrained)
    plain, bias = base.head, torch.zeros(base.head.out_features)
    bias[[5, 6, 7, *base.end_ids]] = torch.tensor([9.0, 9.0, 8.0] + [6.0] * len(base.end_ids))
    base.head = lambda states: plain(states) + bias
    return base


@pytest.fixture(scope="module")
def base():
    return repetitive(load("tiny", device=CPU))


@pytest.fixture(scope="module")
def windowed():
    return repetitive(windowed_model())


@pytest.fixture
def passes(monkeypatch):
    """Shapes [rows, tokens] of all passes after the prompts'."""
    shapes = []

    def seen(tokens, seen_by):
        if not isinstance(seen_by, PromptTree):
            shapes.append(tuple(tokens.shape))

    watch_passes(monkeypatch, seen)
    return shapes


def sample(base, monkeypatch, sampling, length, rows=11, max_rows=5):
    """Sample with drafts of a fixed length."""
    monkeypatch.setattr(DraftLength, "best", lambda self, rows: length)
    monkeypatch.setattr(continuous_batching, "JOIN", {"cpu": 1})  # passes are counted: no prompt waits for others
    rng = np.random.default_rng(0)
    generation = Generation(base, sampling, max_rows=max_rows)
    for row in range(rows):
        ids = np.concatenate([[1, 2], rng.integers(5, 8, 3 * row)]).astype(np.int32)
        generation.submit(Prompt(ids, np.random.default_rng(row), ["a_0", "b_0", None][row % 3]))
    found = {}
    while generation.busy:
        found.update(generation.step())
    return [found[row] for row in range(rows)]


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("model", ["base", "windowed"])
def test_the_same_uniform_numbers_give_the_same_actions(request, monkeypatch, passes, model, sampling):
    base = request.getfixturevalue(model)
    plain = sample(base, monkeypatch, sampling, 0)
    assert {tokens for _, tokens in passes} == {1}
    alone = len(passes)
    for length in range(1, LONGEST_DRAFT + 1):
        passes.clear()
        drafted = sample(base, monkeypatch, sampling, length)
        assert max(tokens for _, tokens in passes) == 1 + length
        assert len(passes) < 0.8 * alone
        for one, other in zip(plain, drafted, strict=True):
            assert one.token_ids.tolist() == other.token_ids.tolist()
            assert np.abs(one.logprobs - other.logprobs).max() < 1e-4
            assert one.stopped == other.stopped
            assert (one.support is None) == (other.support is None) == (sampling is not SAMPLINGS["restricted"])
            for kept, same in zip(one.support or (), other.support or (), strict=True):
                assert kept.tolist() == same.tolist()


def test_no_pass_reaches_beyond_the_last_position_of_a_row(base, monkeypatch):
    """Models with learned positions have no more; others rescale all rows by the largest."""
    reached = []

    def watched(trunk, tokens, positions, seen_by):
        reached.append(positions.max().item())
        return run(trunk, tokens, positions, seen_by)

    monkeypatch.setattr(decode_step, "run", watched)
    sampling = SAMPLINGS["greedy"]
    prompts = sample(base, monkeypatch, sampling, LONGEST_DRAFT)
    longest = max(len(action.prompt_ids) for action in prompts)
    assert max(reached) == longest + sampling.max_new_tokens - 1


def test_padding_behind_short_guesses_stays_within_each_rows_positions(base, monkeypatch):
    reached = {}

    def watched(trunk, tokens, positions, seen_by):
        if tokens.shape[1] > 1:
            for row in positions:
                start = int(row[0])
                reached.setdefault(start, []).append(int(row.max()))
        return run(trunk, tokens, positions, seen_by)

    monkeypatch.setattr(decode_step, "run", watched)
    monkeypatch.setattr(DraftLength, "best", lambda self, rows: LONGEST_DRAFT)
    monkeypatch.setattr(PromptLookup, "guess", lambda self: [5] * LONGEST_DRAFT)
    monkeypatch.setattr(base, "end_ids", frozenset())
    generation = Generation(base, SamplingParams(max_new_tokens=6))
    short, long = np.arange(3, dtype=np.int32), np.arange(40, dtype=np.int32)
    generation.submit(Prompt(short, np.random.default_rng(0), "a_0"))
    for _ in range(2):
        generation.step()
    generation.submit(Prompt(long, np.random.default_rng(1), "a_0"))
    while generation.busy:
        generation.step()
    of_short = [last for start, ends in reached.items() if start < 20 for last in ends]
    assert max(of_short) == len(short) + 6 - 1  # the other row guesses more


def test_right_guesses_are_counted_also_where_none_was_run(base, monkeypatch):
    """Drafting starts by itself: the share of right guesses is known before the first guess is run."""
    monkeypatch.setattr(base, "end_ids", frozenset())
    generation = Generation(base, SamplingParams(temperature=0, max_new_tokens=24))
    shapes = []
    generation.submit(Prompt(np.asarray([1, 2, 5, 5, 5, 5, 5, 5], np.int32), np.random.default_rng(0), "a_0"))
    best = DraftLength.best
    while generation.busy:
        generation.step()
        shapes.append(best(generation._draft_length, 1))
    assert shapes[0] == 0
    assert max(shapes) > 0


def distribution_behind(base, ids):
    """Return the probabilities of the next token, float [V]."""
    with base.active_adapter("a_0"), torch.no_grad():
        hidden = base.trunk(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
        return base.head(hidden).double().softmax(-1).numpy()


def test_tokens_behind_a_right_guess_follow_the_models_distribution(base, monkeypatch):
    prompt = [1, 2, 3]
    first = int(distribution_behind(base, prompt).argmax())
    second = int(distribution_behind(base, [*prompt, first]).argmax())
    monkeypatch.setattr(DraftLength, "best", lambda self, rows: LONGEST_DRAFT)
    monkeypatch.setattr(PromptLookup, "guess", lambda self: [second] * 3)
    generation = Generation(base, SamplingParams(max_new_tokens=3))
    for row in range(3000):
        generation.submit(Prompt(np.asarray(prompt, np.int32), np.random.default_rng(row), "a_0"))
    actions = []
    while generation.busy:
        actions += [action for _, action in generation.step()]
    third = [a.token_ids[2] for a in actions if a.token_ids[:2].tolist() == [first, second] and len(a.token_ids) == 3]
    wanted = distribution_behind(base, [*prompt, first, second]) * len(third)
    common = np.flatnonzero(wanted > 8)
    counts = [third.count(token) for token in common]
    assert len(third) > 200
    assert len(common) >= 3
    rest = len(third) - sum(counts), len(third) - wanted[common].sum()
    assert chisquare([*counts, rest[0]], [*wanted[common], rest[1]]).pvalue > 1e-3


def test_a_guess_is_what_followed_the_longest_match_last_time():
    lookup = PromptLookup([1, 2, 3, 9, 2, 3, 8, 7, 6, 5, 2])
    copy = lookup.copy()
    assert lookup.guess() == []
    lookup.extend([3])
    assert lookup.guess() == [8, 7, 6]  # 2, 3 occurred twice: the last time counts
    lookup.extend([9, 2, 3])
    assert lookup.guess() == [8, 7, 6]  # 3, 9, 2, 3 is longer
    copy.extend([2, 3])  # and what the other read since is not in the copy
    assert copy.guess() == [8, 7, 6]
    assert PromptLookup([4, 4]).guess() == []
    assert PromptLookup([4, 4, 4]).guess() == [4]
    assert PromptLookup([]).guess() == []


def test_drafts_are_as_long_as_they_pay():
    length = DraftLength(fixed_cost=50)
    assert length.best(1) == 0  # nothing is known
    for _ in range(50):
        length.observe(3, 10)
    assert length.best(2) == LONGEST_DRAFT
    assert length.best(16) > 0
    assert length.best(200) == 0  # a pass of many rows costs what its tokens cost
    for _ in range(50):
        length.observe(0, 10)
    assert length.best(2) == 0
