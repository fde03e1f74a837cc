"""The decoding step can be captured: no host read, no copy from the host, few operators, the same tokens."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from transformers import LlamaConfig, LlamaForCausalLM

from marft_agents.generation import step_engine
from marft_agents.generation.continuous_batching import Generation, Prompt
from marft_agents.generation.decode_step import decode_step
from marft_agents.generation.prompt_cache import PromptCache, PromptCacheUse, PromptMemory
from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.step_engine import BLOCK, MOST_GRAPHS, StepEngine, in_buckets
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.pretrained import Pretrained, load
from marft_agents.models.random_models import byte_tokenizer
from marft_agents.setting_fields import SettingsError
from tests.helpers.adapted_models import SHAPE, adapted, windowed_model
from tests.helpers.operators import Operators

CPU = torch.device("cpu")
SAMPLINGS = {
    "plain": SamplingParams(max_new_tokens=17),
    "top-k": SamplingParams(temperature=0.7, top_k=9, top_p=0.9, max_new_tokens=17),
    "top-p": SamplingParams(top_p=0.8, max_new_tokens=17),
    "greedy": SamplingParams(temperature=0, max_new_tokens=17),
}


def ending(pretrained, more):
    """Return a model that samples the end token now and then, so that rows end at different steps."""
    base = adapted(pretrained)
    plain, bias = base.head, torch.zeros(base.head.out_features)
    bias[list(base.end_ids)] = more
    base.head = lambda states: plain(states) + bias
    return base


@pytest.fixture(scope="module")
def base():
    return ending(load("tiny", device=CPU), 2.5)


@pytest.fixture(scope="module")
def windowed():
    return ending(windowed_model(), 0.0)


class Repeated:
    """Captures nothing: a replay is the step itself."""

    def __init__(self, step):
        self.replay = step


def repeated(step):
    return Repeated(step), step()


class Traced:
    """A step as an FX graph over the buffers of the trace."""

    def __init__(self, step):
        self._graph = make_fx(step)()
        targets = {str(node.target) for node in self._graph.graph.nodes}
        copied = {target for target in targets if "lift_fresh" in target or "_local_scalar" in target}
        assert not copied, f"the step copies from the host or reads: {copied}"
        self.replays, self.output = 0, None

    def replay(self):
        self.replays += 1
        self.output.copy_(self._graph())


def traced(made):
    def capture(step):
        graph = Traced(step)
        graph.output = step()
        made.append(graph)
        return graph, graph.output

    return capture


def prompts(rows, seed=0):
    """Return prompts of which some are equal and some begin alike."""
    rng = np.random.default_rng(seed)
    head = rng.integers(5, 250, 30)
    tails = [rng.integers(5, 9, rng.integers(1, 12)) for _ in range(rows)]
    return [np.concatenate([head[: 30 if k % 4 else 5], tails[k // 2 * 2]]).astype(np.int32) for k in range(rows)]


def sampled(base, sampling, engine, rows=9, cache=None, seed=0):
    """Sample actions of several adapters; later prompts join while others run."""
    generation = Generation(base, sampling, engine=engine, cache=cache)
    asked = iter(zip(itertools.count(), prompts(rows, seed), itertools.cycle(["a_0", "b_0", None])))
    actions = {}
    for i, ids, adapter in itertools.islice(asked, 6):
        generation.submit(Prompt(ids, np.random.default_rng(i), adapter))
    while generation.busy:
        actions.update(generation.step())
        for i, ids, adapter in itertools.islice(asked, 1):
            generation.submit(Prompt(ids, np.random.default_rng(i), adapter))
    return [actions[i] for i in range(rows)]


@pytest.fixture(scope="module")
def eagerly():
    """Return actions sampled without any graph; each kind is sampled once."""
    return cache(lambda base, sampling: sampled(base, sampling, StepEngine(base, max_rows=5)))


def equal(one, other, tolerance=0.0):
    for a, b in zip(one, other, strict=True):
        assert a.token_ids.tolist() == b.token_ids.tolist()
        assert np.abs(a.logprobs - b.logprobs).max() <= tolerance
        assert (a.support is None) == (b.support is None)
        for kept, same in zip(a.support or (), b.support or (), strict=True):
            assert kept.tolist() == same.tolist()


@pytest.mark.parametrize(
    ("model", "sampling"), [("base", "plain"), ("base", "top-k"), ("base", "greedy"), ("windowed", "top-p")]
)
def test_blocks_that_are_read_late_sample_the_same_actions(request, eagerly, model, sampling):
    base, sampling = request.getfixturevalue(model), SAMPLINGS[sampling]
    eager = eagerly(base, sampling)
    assert model == "windowed" or len({len(action.token_ids) for action in eager}) > (1 if sampling.greedy else 3)
    engine = StepEngine(base, max_rows=5, tokens=2000, capture=repeated)
    equal(eager, sampled(base, sampling, engine), 1e-4)
    small = StepEngine(base, max_rows=5, tokens=290, capture=repeated)  # not for five rows
    equal(eager, sampled(base, sampling, small), 1e-4)
    kept = PromptCache(PromptMemory(10_000))
    for _ in range(2):
        equal(eager, sampled(base, sampling, engine, cache=kept), 1e-4)
    assert engine.fallback is small.fallback is None


def test_kept_prompts_lie_in_the_memory_of_the_rows(base, eagerly):
    """One allocation a layer: prompts of earlier generations get no memory of their own."""
    sampling = SAMPLINGS["plain"]
    eager = eagerly(base, sampling)
    engine = StepEngine(base, max_rows=5, tokens=2000, prompts=100, capture=repeated)
    memory, use = engine.cache.lend_prompt_memory(), PromptCacheUse()
    cache = PromptCache(memory, use)
    addresses = set()
    for _ in range(2):
        equal(eager, sampled(base, sampling, engine, cache=cache), 1e-4)
        for layer, tensors in cache.kept.items():
            for kept, rows in zip(tensors, engine.cache.rows(layer, 1), strict=True):
                storage = kept.untyped_storage()
                assert len(kept) == 100
                assert storage.data_ptr() == rows.untyped_storage().data_ptr()
                assert storage.nbytes() == (2000 + 100) * kept[0].nbytes
                addresses.add((layer, kept.data_ptr()))
    assert len(addresses) == 2 * base.peft.config.num_hidden_layers
    assert 0 < use.known < use.asked
    assert engine.cache.lend_prompt_memory().tokens == 0  # someone has it
    del memory, cache
    again = engine.cache.lend_prompt_memory()
    assert again.tokens == 100
    assert again.kept.keys() == {layer for layer, _ in addresses}


def test_prompts_kept_before_the_engine_has_its_memory_move_there(base):
    """Another session has the engine, so an eager one computes the prompts."""
    sampling, eager = SAMPLINGS["plain"], StepEngine(base, max_rows=5)
    engine = StepEngine(base, max_rows=5, tokens=2000, prompts=500, capture=repeated)
    use = PromptCacheUse()
    cache = PromptCache(engine.cache.lend_prompt_memory(), use)
    first = sampled(base, sampling, eager, cache=cache)
    assert all(len(keys) < 500 for keys, _ in cache.kept.values())
    sampled(base, sampling, engine)
    assert all(len(keys) == 500 for keys, _ in cache.kept.values())
    known = use.known
    equal(first, sampled(base, sampling, eager, cache=cache), 1e-4)
    assert use.known > known


@pytest.mark.parametrize("model", ["base", pytest.param("windowed", marks=pytest.mark.long)])
def test_a_replayed_graph_is_the_eager_step_bit_for_bit(request, model):
    base, made = request.getfixturevalue(model), []
    sampling = SAMPLINGS["top-k"]
    engine = StepEngine(base, max_rows=3, tokens=1000, capture=traced(made))
    found = sampled(base, sampling, engine, rows=5)
    assert engine.fallback is None
    assert sum(graph.replays for graph in made) > 30
    assert 1 < len(made) <= MOST_GRAPHS
    equal(sampled(base, sampling, StepEngine(base, max_rows=3, tokens=1000, capture=repeated), rows=5), found)


@cache
def llama(dtype, adapters, layers=2):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=259, num_key_value_heads=2, pad_token_id=0, **{**SHAPE, "num_hidden_layers": layers}
    )
    model = LlamaForCausalLM(config).to(dtype).eval().requires_grad_(False)
    names = [f"agent_{k}" for k in range(adapters)]
    base = AdaptedBase(Pretrained("llama", "", model, byte_tokenizer()), names, LoraSettings(), seed=0)
    base.end_ids = frozenset()
    return base


def running(base, sampling, *, shared, rows=6):
    """Return the engine of a generation in progress and the shape of its next step."""
    engine = StepEngine(base, max_rows=rows, capture=repeated)
    generation = Generation(base, sampling, engine=engine)
    for row in range(rows):
        ids = np.arange(9, 40, dtype=np.int32) if shared else np.full(20, 9 + row, np.int32)
        generation.submit(
            Prompt(
                ids,
                np.random.default_rng(row),
                base.adapters[row % len(base.adapters)] if not shared else base.adapters[0],
            )
        )
    generation.step()
    shape = engine.shape(new=1, depth=engine.cache.layout.room)
    engine.buffers(sampling).step.zero_()
    assert (shape.families > 0) == shared
    return engine, shape


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("sampling", [SAMPLINGS["plain"], SAMPLINGS["top-k"], SAMPLINGS["greedy"]])
def test_a_step_reads_nothing_from_the_device(sampling, shared):
    base = llama(torch.float32, 2)
    engine, shape = running(base, sampling, shared=shared)
    buffers = engine.buffers(sampling)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        decode_step(base, sampling, engine.cache, buffers, shape)


def test_a_host_read_would_be_seen():
    base, sampling = llama(torch.float32, 1), SAMPLINGS["top-p"]
    engine, shape = running(base, sampling, shared=False)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(DataDependentOutputException):
        decode_step(base, sampling, engine.cache, engine.buffers(sampling), shape)


def test_a_copy_from_the_host_would_be_seen():
    with pytest.raises(AssertionError, match="copies from the host"):
        Traced(lambda: torch.ones(2) + torch.tensor([1.0, 2.0]))


def operators(dtype, *, adapters, layers, shared):
    """Return the number of operators of a step."""
    base = llama(dtype, adapters, layers)
    engine, shape = running(base, SAMPLINGS["plain"], shared=shared)
    with torch.no_grad(), Operators() as counted:
        decode_step(base, SAMPLINGS["plain"], engine.cache, engine.buffers(SAMPLINGS["plain"]), shape)
    assert counted.counts["_local_scalar_dense"] == 0
    return counted.total


@pytest.mark.parametrize(("shared", "most"), [(False, 40), (True, 50)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_has_few_operators_however_many_adapters(dtype, shared, most):
    few, more = (operators(dtype, adapters=1, layers=layers, shared=shared) for layers in (2, 4))
    assert (more - few) / 2 <= most
    assert few - (more - few) <= 90  # for all layers together: masks, head, sampling
    assert operators(dtype, adapters=12, layers=2, shared=shared) == few


def test_a_step_makes_and_checks_no_settings(base, monkeypatch):
    """Checked once for each step they took a quarter of a rollout's time with a small model."""
    sampling = SamplingParams(max_new_tokens=30)
    generation = Generation(base, sampling, engine=StepEngine(base, max_rows=2))
    generation.submit(Prompt(np.arange(5, dtype=np.int32), np.random.default_rng(0), "a_0"))
    generation.step()
    made = []
    monkeypatch.setattr(SamplingParams, "__post_init__", made.append)
    while generation.busy:
        generation.step()
    assert not made


class Wrong(Repeated):
    """Replays something else than what was captured."""

    def __init__(self, step, output):
        self.output, self.step = output, step

    def replay(self):
        self.step()
        self.output.mul_(-1)


def wrong(step):
    output = step()
    return Wrong(step, output), output


def failing(step):
    raise RuntimeError("no compiler")


@pytest.mark.parametrize(
    ("capture", "reason"),
    [(wrong, "log-probs of a captured step of 6 rows differ by"), (failing, "RuntimeError: no compiler")],
)
def test_a_capture_that_fails_or_differs_is_not_used(base, eagerly, capture, reason):
    engine = StepEngine(base, max_rows=12, tokens=2000, capture=capture)
    with pytest.warns(RuntimeWarning, match=f"{reason}.*--engine eager"):
        found = sampled(base, SAMPLINGS["plain"], engine)
    assert reason in engine.fallback
    equal(eagerly(base, SAMPLINGS["plain"]), found, 1e-4)


def test_stacked_adapters_that_are_not_those_of_peft_are_refused(base, monkeypatch):
    monkeypatch.setattr(base, "adapters_of_rows", lambda numbers: base.active_adapter("a_0"))
    with pytest.raises(ArithmeticError, match="log-probs of the stacked adapter 'b_0' and of PEFT differ by"):
        sampled(base, SAMPLINGS["plain"], StepEngine(base, max_rows=5, tokens=2000, capture=repeated))


def test_at_most_so_many_graphs_are_captured(base, eagerly, monkeypatch):
    monkeypatch.setattr(step_engine, "MOST_GRAPHS", 2)
    made = []

    def capture(step):
        made.append(step)
        return repeated(step)

    engine = StepEngine(base, max_rows=3, tokens=2000, capture=capture)
    equal(eagerly(base, SAMPLINGS["plain"]), sampled(base, SAMPLINGS["plain"], engine), 1e-4)
    assert len(made) == 2


def test_engines_that_cannot_be_are_refused(base):
    with pytest.raises(SettingsError, match="engine = 'fast', wanted auto, eager, graph"):
        StepEngine(base, engine="fast")
    with pytest.raises(SettingsError, match="engine = 'graph' captures CUDA graphs, found device cpu"):
        StepEngine(base, engine="graph")
    engine = StepEngine(base, tokens=50)
    generation = Generation(base, SamplingParams(max_new_tokens=60), engine=engine)
    generation.submit(Prompt(np.arange(5, dtype=np.int32), np.random.default_rng(0), "a_0"))
    with pytest.raises(ValueError, match="a prompt of 5 tokens and an action of 60 do not fit into the KV cache"):
        generation.step()


def test_sizes_are_rounded_up_to_few_values():
    assert [in_buckets(size) for size in (1, 2, 3, 4, 5, 7, 9, 13, 17, 200)] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 256]
    assert all(size <= in_buckets(size) < 1.5 * size for size in range(2, 3000))


def test_one_block_is_late_and_no_more(base):
    """A row of one token leaves with its prefill; others are read a block after they ran."""
    sampling = SamplingParams(max_new_tokens=2 * BLOCK)
    plain = load("tiny", device=CPU)
    silent = adapted(plain)
    silent.end_ids = frozenset()
    generation = Generation(silent, sampling, engine=StepEngine(silent, max_rows=2, capture=repeated))
    generation.submit(Prompt(np.arange(5, dtype=np.int32), np.random.default_rng(0), "a_0"))
    steps = 0
    while generation.busy:
        ended = generation.step()
        steps += 1
    assert steps == 3
    [(_, action)] = ended
    assert len(action.token_ids) == 2 * BLOCK
