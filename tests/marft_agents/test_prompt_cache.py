"""Prompts that continue earlier ones: the same actions, and only the new tokens computed."""

import numpy as np
import pytest
import torch
from adapted_models import adapted, watch_passes, windowed_model
from fakes import Market

from marft_agents.generation import prompt_tree
from marft_agents.generation.continuous_batching import Prompt, generate
from marft_agents.generation.prompt_cache import PromptCache, PromptCacheUse
from marft_agents.generation.prompt_tree import PromptTree
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.pretrained import load
from marft_agents.policies.language_model import LanguageModelTeam, Seat
from marft_agents.policies.policy import FunctionPolicy, Request, TimedPolicy, session_of, text_action
from marft_agents.policies.scripted import MixedPolicy
from marft_agents.rollouts.rollout import collect, training_episodes

CPU = torch.device("cpu")


class PatientMarket(Market):
    """A market in which whatever an agent says counts as the same word."""

    def step(self, action):
        super().step(None if action is None else "a")


LAW = SamplingParams(max_new_tokens=6)
ROOM = 1 << 30


@pytest.fixture(scope="module")
def base():
    return adapted(load("tiny", device=CPU))


@pytest.fixture(scope="module")
def windowed():
    return adapted(windowed_model())


@pytest.fixture
def computed(monkeypatch):
    """Number of prompt tokens that each prefill computes."""
    sizes = []

    def seen(tokens, seen_by):
        if isinstance(seen_by, PromptTree):
            sizes.append(tokens.numel())

    watch_passes(monkeypatch, seen)
    return sizes


def some_prompts(seed, rows=9):
    """Prompts over few tokens behind a common beginning, so that they part at every depth."""
    rng = np.random.default_rng(seed)
    tails = [rng.integers(0, 3, rng.integers(1, 20)) for _ in range(rows)]
    return [np.concatenate([np.arange(10), tail]).astype(np.int32) for tail in tails]


def prefixes(adapters, prompts):
    return {
        (adapter, ids[:n].tobytes())
        for adapter, ids in zip(adapters, prompts, strict=True)
        for n in range(1, len(ids) + 1)
    }


def sample(base, adapters, prompts, cache=None, **options):
    asked = [Prompt(ids, np.random.default_rng(i), a) for i, (ids, a) in enumerate(zip(prompts, adapters, strict=True))]
    return generate(base, asked, LAW, cache=cache, **options)


def alike(one, other):
    return one.token_ids.tolist() == other.token_ids.tolist() and np.abs(one.logprobs - other.logprobs).max() < 1e-4


@pytest.mark.parametrize("model", ["base", "windowed"])
@pytest.mark.parametrize("seed", range(3))
def test_a_prompt_that_continues_an_earlier_one_gets_the_same_action(request, monkeypatch, computed, model, seed):
    monkeypatch.setattr(prompt_tree, "LARGEST_MASK", 400)  # several parts
    monkeypatch.setattr(prompt_tree, "PIECE", 4)  # several pieces of a prompt
    base = request.getfixturevalue(model)
    rng = np.random.default_rng(seed)
    prompts, adapters = some_prompts(seed), ["a_0", "b_0", None] * 3
    cache = PromptCache(ROOM)
    known = set()
    for _ in range(4):
        plain = sample(base, adapters, prompts)
        distinct = len(prefixes(adapters, prompts))
        assert sum(computed) == distinct
        computed.clear()
        cached = sample(base, adapters, prompts, cache, max_rows=7)
        assert all(map(alike, plain, cached))
        new = prefixes(adapters, prompts) - known
        assert len(new) <= sum(computed) <= len(new) + len(prompts)  # the last token is computed in any case
        computed.clear()
        known |= prefixes(adapters, prompts)
        keep = rng.permutation(len(prompts))[:6]  # the others wait
        for i in keep:
            more = rng.integers(0, 3, rng.integers(0, 5)).astype(np.int32)
            prompts[i] = np.concatenate([prompts[i], plain[i].token_ids, more])


def test_prompts_that_are_known_whole_compute_their_last_token(base, computed):
    prompts = [np.arange(n, dtype=np.int32) for n in (1, 5, 5, 9)]
    cache = PromptCache(ROOM)
    first = sample(base, ["a_0"] * 4, prompts, cache)
    second = sample(base, ["a_0"] * 4, prompts, cache)
    assert all(map(alike, first, second))
    assert computed == [9, 3]
    sample(base, ["b_0"] * 4, prompts, cache)
    assert computed == [9, 3, 9]


def test_a_continued_prompt_makes_room_and_the_oldest_pass_goes_first(base, computed):
    def prefill(start, length, cache):
        computed.clear()
        sample(base, ["a_0"], [np.arange(start, start + length, dtype=np.int32)], cache)
        return computed[0]

    pair = 2 * base.peft.config.num_hidden_layers * base.peft.config.num_key_value_heads * base.peft.config.head_dim * 4
    cache = PromptCache(60 * pair)
    assert prefill(30, 20, cache) == 20
    assert prefill(30, 22, cache) == 2  # the pass of 20 tokens is dropped
    assert prefill(100, 30, cache) == 30
    assert prefill(30, 22, cache) == 1
    assert prefill(200, 10, cache) == 10  # 62 tokens: those of 100 were the oldest
    assert prefill(30, 22, cache) == 1
    assert prefill(100, 30, cache) == 30
    use = PromptCacheUse()
    small = PromptCache(15 * pair, use)
    assert prefill(30, 20, small) == 20
    assert prefill(30, 20, small) == 5  # what fits is kept
    assert (use.asked, use.known) == (40, 15)
    assert prefill(60, 5, small) == 5  # the oldest pass goes first
    assert prefill(30, 20, small) == 20


def test_of_a_large_prefill_the_first_prompts_are_kept(base, computed):
    prompts = [np.asarray([9, 8, *range(start, start + 6)], np.int32) for start in (20, 40, 60)]
    size = 2 * base.peft.config.num_hidden_layers * base.peft.config.num_key_value_heads * base.peft.config.head_dim * 4
    cache = PromptCache(11 * size)  # the first prompt and half of what the second adds to it
    wanted = sample(base, ["a_0"] * 3, prompts)
    for tokens in (20, 1 + 3 + 6):
        computed.clear()
        assert all(map(alike, sample(base, ["a_0"] * 3, prompts, cache), wanted))
        assert computed == [tokens]


def test_a_rollout_has_a_session_and_the_next_one_sees_new_weights(base, computed):
    team = LanguageModelTeam({"buyer_0": Seat(base, "a_0"), "seller_0": Seat(base, "b_0")}, LAW)

    def play(policy):
        computed.clear()
        return [
            turn.action
            for game in collect(PatientMarket, policy, training_episodes(0, 0, 2, 2), seed=0)
            for turn in game.turns
        ]

    plain = play(FunctionPolicy(team.act))
    without = sum(computed)
    timed = TimedPolicy(MixedPolicy({"buyer_0": team, "seller_0": team}))
    assert all(map(alike, plain, play(timed)))
    assert sum(computed) < without
    assert timed.seconds > 0
    for tensor in base.parameters("a_0").values():
        tensor.data = 2 * tensor.data
    changed = play(timed)
    assert not all(map(alike, plain, changed))
    assert all(map(alike, changed, play(FunctionPolicy(team.act))))


def test_a_policy_without_a_session_answers_itself():
    policy = FunctionPolicy(lambda requests: [text_action(request.agent) for request in requests])
    assert session_of(policy) is policy
    request = Request("x", "", np.random.default_rng(0))
    assert session_of(MixedPolicy({"x": policy})).act([request])[0].text == "x"
    timed = TimedPolicy(policy)
    assert session_of(timed).act([request])[0].text == "x"
    assert timed.seconds > 0
