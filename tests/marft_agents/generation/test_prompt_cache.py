"""Prompts that continue earlier ones: the same actions, and only the new tokens computed."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from marft_agents.generation import prompt_tree
from marft_agents.generation.continuous_batching import Prompt, generate
from marft_agents.generation.engine_settings import EngineSettings, bytes_of_token
from marft_agents.generation.prompt_cache import PromptCache, PromptCacheUse, PromptMemory
from marft_agents.generation.prompt_tree import PromptTree
from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.step_engine import StepEngine
from marft_agents.models.pretrained import load
from marft_agents.policies import language_model
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.policy import FunctionPolicy, Request, TimedPolicy, session_of, text_action
from marft_agents.policies.scripted import MixedPolicy
from marft_agents.rollouts.rollout import collect, training_episodes
from tests.helpers.adapted_models import adapted, watch_passes, windowed_model
from tests.helpers.fakes import Market

CPU = torch.device("cpu")


class PatientMarket(Market):
    """A market in which whatever an agent says counts as the same word."""

    def step(self, action):
        super().step(None if action is None else "a")


SAMPLING = SamplingParams(max_new_tokens=6)
ROOM = 10_000


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
    return generate(base, asked, SAMPLING, cache=cache, **options)


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
    cache = PromptCache(PromptMemory(ROOM))
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
    cache = PromptCache(PromptMemory(ROOM))
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

    cache = PromptCache(PromptMemory(60))
    assert prefill(30, 20, cache) == 20
    assert prefill(30, 22, cache) == 2  # the pass of 20 tokens is dropped
    assert prefill(100, 30, cache) == 30
    assert prefill(30, 22, cache) == 1
    assert prefill(200, 10, cache) == 10  # 62 tokens: those of 100 were the oldest
    assert prefill(30, 22, cache) == 1
    assert prefill(100, 30, cache) == 30
    use = PromptCacheUse()
    small = PromptCache(PromptMemory(15), use)
    assert prefill(30, 20, small) == 20
    assert prefill(30, 20, small) == 5  # what fits is kept
    assert (use.asked, use.known) == (40, 15)
    assert prefill(60, 5, small) == 5  # the oldest pass goes first
    assert prefill(30, 20, small) == 20


def test_of_a_large_prefill_the_first_prompts_are_kept(base, computed):
    prompts = [np.asarray([9, 8, *range(start, start + 6)], np.int32) for start in (20, 40, 60)]
    cache = PromptCache(PromptMemory(11))  # the first prompt and half of what the second adds to it
    wanted = sample(base, ["a_0"] * 3, prompts)
    for tokens in (20, 1 + 3 + 6):
        computed.clear()
        assert all(map(alike, sample(base, ["a_0"] * 3, prompts, cache), wanted))
        assert computed == [tokens]


@pytest.mark.parametrize("room", [0, 7, 40, 300])
def test_known_tokens_are_those_of_the_prompt_whatever_was_dropped(room):
    """Prompts come and go at random; the key of a token is a number of the prefix that ends with it."""
    rng, numbers = np.random.default_rng(room), {}
    memory, use = PromptMemory(room), PromptCacheUse()
    cache = PromptCache(memory, use)
    for _ in range(200):
        prompts = [rng.integers(0, 2, rng.integers(1, 12)).astype(np.int32) for _ in range(rng.integers(1, 5))]
        adapters = [["a", None][rng.integers(2)] for _ in prompts]
        wanted = [
            [numbers.setdefault((adapter, ids[:n].tobytes()), len(numbers)) for n in range(1, len(ids) + 1)]
            for adapter, ids in zip(adapters, prompts, strict=True)
        ]
        for own, places in zip(wanted, cache.find(adapters, prompts), strict=True):
            if len(places):
                assert cache.kept[0][0][places].flatten().tolist() == own[: len(places)]
        packed = torch.tensor([number for own in wanted for number in own], dtype=torch.float64)[:, None, None]
        paths = np.split(np.arange(len(packed)), np.cumsum([len(ids) for ids in prompts])[:-1])
        cache.add(adapters, prompts, paths, {0: (packed, -packed)})
        first = cache.find(adapters[:1], prompts[:1])[0]
        assert len(first) == min(room, len(prompts[0]))  # the first prompt of a prefill is kept, as far as it fits
        assert not memory.kept or len(memory.kept[0][0]) <= room
    assert room == 0 or use.known > 0


def test_a_rollout_has_a_session_and_the_next_one_sees_new_weights(base, computed):
    team = LanguageModelTeam({"buyer_0": LocalAgent(base, "a_0"), "seller_0": LocalAgent(base, "b_0")}, SAMPLING)

    def play(policy):
        computed.clear()
        return [
            turn.action
            for game in collect(PatientMarket, policy, training_episodes(0, 0, 2, 2), seed=0)
            for turn in game.turns
        ]

    assert team.engine_limits() == []
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


def test_sessions_of_captured_steps_keep_prompts_in_the_memory_of_their_rows(base, computed, monkeypatch):
    def repeated(step):
        return SimpleNamespace(replay=step), step()

    monkeypatch.setattr(language_model, "StepEngine", partial(StepEngine, capture=repeated))
    sizes = EngineSettings(max_batch=8, kv_cache_gib=0.001)
    team = LanguageModelTeam(
        {"buyer_0": LocalAgent(base, "a_0"), "seller_0": LocalAgent(base, "b_0")}, SAMPLING, engine=sizes
    )

    def play(policy):
        computed.clear()
        return [
            turn.action
            for game in collect(PatientMarket, policy, training_episodes(0, 0, 2, 2), seed=0)
            for turn in game.turns
        ]

    plain = play(FunctionPolicy(team.act))
    without = sum(computed)
    for _ in range(2):
        before = replace(team.prompt_cache_use)
        assert all(map(alike, plain, play(team)))
        assert sum(computed) < without
        assert 0 < (team.prompt_cache_use - before).metrics()["team/prompt_cache_hits"] < 1
    [engine] = team._engines.values()
    assert "captured steps guess no tokens" in "".join(team.engine_limits())
    assert "top_p = 0.9 without top_k are not captured" in team.under(SamplingParams(top_p=0.9)).engine_limits()[0]
    heads, size = base.peft.config.num_key_value_heads, base.peft.config.head_dim
    for layer in range(base.peft.config.num_hidden_layers):
        for buffer in engine.cache.rows(layer, 1):
            assert buffer.untyped_storage().nbytes() // (4 * heads * size) == (
                sizes.rows_bytes // bytes_of_token(base.peft.config, base.dtype)
                + sizes.prompts_bytes // bytes_of_token(base.peft.config, base.dtype)
            )


def test_a_policy_without_a_session_answers_itself():
    policy = FunctionPolicy(lambda requests: [text_action(request.agent) for request in requests])
    assert session_of(policy) is policy
    request = Request("x", "", np.random.default_rng(0))
    assert session_of(MixedPolicy({"x": policy})).act([request])[0].text == "x"
    timed = TimedPolicy(policy)
    assert session_of(timed).act([request])[0].text == "x"
    assert timed.seconds > 0
