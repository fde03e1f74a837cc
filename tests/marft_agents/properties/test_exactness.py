"""Fast paths against plain ones: prefix trees, generation with shared prefixes, log-probs, gradients."""

import itertools

import numpy as np
import pytest
import torch
from transformers import (
    AttentionInterface,
    AutoModelForCausalLM,
    BloomConfig,
    CohereConfig,
    DeepseekV3Config,
    DiffLlamaConfig,
    Gemma2Config,
    Lfm2Config,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    PhimoeConfig,
)

from marft_agents.generation.continuous_batching import Prompt, generate
from marft_agents.generation.kv_cache import KVCache, PrefixFamily, families
from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.token_sampling import scale
from marft_agents.learning.pass_size import PassSize
from marft_agents.learning.scoring import LogProbScorer
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.context_window import ContextSettings
from marft_agents.models.model_error import ModelError
from marft_agents.models.prefix_tree import build_levels, choose_cuts
from marft_agents.models.pretrained import Pretrained, load
from marft_agents.models.random_models import byte_tokenizer
from marft_agents.models.tree_attention import attend, causal_mask, install
from marft_agents.models.tree_mask import DepthFirst
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.token_log_probs import LOGITS, action_hidden, chunk_rows, score_tokens
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Action
from tests.helpers.adapted_models import SHAPE, adapted, windowed_model
from tests.helpers.naive import support_mask

ATTENTION = ("q_proj", "v_proj")  # the trunk alone has adapters: the head is looked at by itself
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def base():
    return adapted(load("tiny", device=CPU), LoraSettings(targets=ATTENTION))


def ragged(seed, rows=12, symbols=3):
    """Prompts and actions over few symbols, so that prefixes are shared by chance at every depth."""
    rng = np.random.default_rng(seed)
    common = rng.integers(0, 250, rng.integers(1, 12)).astype(np.int32)

    def tail(longest):
        return rng.integers(0, symbols, rng.integers(1, longest)).astype(np.int32)

    prompts = [np.concatenate([common[: rng.integers(1, len(common) + 1)], tail(15)]) for _ in range(rows)]
    prompts += prompts[:3]  # groups sample one prompt several times
    return prompts, [tail(8) for _ in prompts]


def plain_hidden(base, prompt, action):
    """One sequence, no cache, no padding."""
    ids = torch.as_tensor(np.concatenate([prompt, action]), dtype=torch.long)[None]
    return base.trunk(input_ids=ids).last_hidden_state[0, len(prompt) - 1 : -1]


# ------------------------------------------------------------------ the tree


@pytest.mark.parametrize("seed", range(20))
def test_levels_spell_every_sequence_and_repeat_no_prefix(seed):
    prompts, actions = ragged(seed)
    sequences = [np.concatenate(pair) for pair in zip(prompts, actions, strict=True)]
    for cuts in (None, [], [3], [2, 5, 9]):
        levels = build_levels(sequences, cuts)
        for i, sequence in enumerate(sequences):
            pieces = [
                level.tokens[level.row_of[i]][level.mask[level.row_of[i]]] for level in levels if level.row_of[i] >= 0
            ]
            assert np.concatenate(pieces).tolist() == sequence.tolist()
        for level in levels:
            end = level.start + level.width
            distinct = {tuple(s[:end]) for s in sequences if len(s) > level.start}
            assert len(level.tokens) == len(distinct)
            rows = [i for i in range(len(sequences)) if level.row_of[i] >= 0]
            previous = levels[levels.index(level) - 1] if level.start else None
            for i in rows if previous else []:
                assert level.parents[level.row_of[i]] == previous.row_of[i]


@pytest.mark.parametrize("seed", range(10))
def test_chosen_cuts_never_cost_more_than_none(seed):
    prompts, actions = ragged(seed, rows=30)
    sequences = [np.concatenate(pair) for pair in zip(prompts, actions, strict=True)]

    def tokens(cuts):
        return sum(level.tokens.size for level in build_levels(sequences, cuts))

    assert tokens(choose_cuts(sequences)) <= tokens([])


def test_attention_in_bfloat16_is_that_in_float32_rounded():
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(4, n, h, 16, generator=generator) for n, h in ((3, 6), (8, 2), (8, 2)))
    mask = causal_mask((torch.arange(5, 8)[:, None] - torch.arange(8))[None], None, 3)
    half = [x.bfloat16() for x in (query, key, value)]
    found = attend(*half, mask, 0.25)
    assert found.dtype == torch.bfloat16
    wanted = attend(*(x.float() for x in half), mask, 0.25)
    assert torch.allclose(found.float(), wanted, rtol=0, atol=2e-2)


def test_micro_batches_hold_every_sequence_once():
    prompts, _ = ragged(0, rows=20)
    batches = PassSize(7).plan(prompts)
    assert sorted(i for batch in batches for i in batch) == list(range(len(prompts)))
    assert max(map(len, batches)) == 7


# ------------------------------------------------------------------ forward


@pytest.mark.parametrize("seed", range(3))
def test_hidden_states_and_gradients_are_those_of_single_sequences(base, seed):
    prompts, actions = ragged(seed)
    with base.active_adapter("a_0"):
        fast = action_hidden(base.trunk, prompts, actions, CPU)
        plain = torch.cat([plain_hidden(base, p, a) for p, a in zip(prompts, actions, strict=True)])
        weights = torch.randn(fast.shape, generator=torch.Generator().manual_seed(seed))
        tensors = list(base.parameters("a_0").values())
        wanted = torch.autograd.grad((plain * weights).sum(), tensors)
        found = torch.autograd.grad((fast * weights).sum(), tensors)
    assert (fast - plain).abs().max() < 1e-5
    for a, b in zip(found, wanted, strict=True):
        assert (a - b).abs().max() < 1e-5 * b.abs().max()


@pytest.mark.parametrize(
    "sampling", [SamplingParams(), SamplingParams(temperature=0.7), SamplingParams(top_k=20, top_p=0.9)]
)
@pytest.mark.parametrize("grad", [True, False])
def test_scores_are_log_softmax_and_entropy_of_the_distribution(base, sampling, grad, monkeypatch):
    monkeypatch.setitem(LOGITS, "cpu", 128 * base.head.out_features)  # five chunks
    hidden = torch.randn(600, base.hidden_size, generator=torch.Generator().manual_seed(0), requires_grad=grad)
    scaled = scale(base.head(hidden.detach()), sampling)
    support = None
    if sampling.restricts_support:
        mask = support_mask(scaled, sampling)
        scaled = scaled.masked_fill(~mask, -torch.inf)
        support = [row.nonzero()[:, 0].numpy().astype(np.int32) for row in mask]
    tokens = scaled.argmax(-1)
    found = score_tokens(base.head, hidden, tokens, sampling, support)
    logprobs = scaled.log_softmax(-1)
    assert (found.logprobs - logprobs.gather(-1, tokens[:, None])[:, 0]).abs().max() < 1e-5
    assert (found.entropy - torch.distributions.Categorical(logits=scaled).entropy()).abs().max() < 1e-4
    assert found.logprobs.requires_grad == grad


@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0.7), SamplingParams(top_k=20, top_p=0.9)])
@pytest.mark.parametrize("bonus", [0.0, 0.3])
def test_gradients_of_scores_and_entropies_are_those_of_plain_autograd(base, sampling, bonus, monkeypatch):
    monkeypatch.setitem(LOGITS, "cpu", 128 * base.head.out_features)  # three chunks
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(300, base.hidden_size, generator=generator, requires_grad=True)
    weights = torch.randn(300, generator=generator)
    scaled = scale(base.head(hidden), sampling)
    support = None
    if sampling.restricts_support:
        mask = support_mask(scaled, sampling)
        scaled = scaled.masked_fill(~mask, -1e9)
        support = [row.nonzero()[:, 0].numpy().astype(np.int32) for row in mask]
    tokens = scaled.argmax(-1)
    plain = scaled.log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
    entropy = torch.distributions.Categorical(logits=scaled).entropy()
    [wanted] = torch.autograd.grad((weights * plain).sum() + bonus * (weights.square() * entropy).sum(), hidden)
    found = score_tokens(base.head, hidden, tokens, sampling, support, entropy_gradient=bonus > 0)
    loss = (weights * found.logprobs).sum() + bonus * (weights.square() * found.entropy).sum()
    [gradient] = torch.autograd.grad(loss, hidden)
    assert found.entropy.requires_grad == (bonus > 0)
    assert (gradient - wanted).abs().max() < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
def test_chunks_of_the_head_take_the_same_memory_whatever_the_vocabulary(device):
    sizes = [v * chunk_rows(v, torch.device(device)) for v in (1_024, 49_152, 151_936, 262_144)]
    assert max(sizes) <= LOGITS.get(device, LOGITS["cpu"])
    assert min(sizes) > 0.9 * max(sizes)
    assert chunk_rows(10**9, torch.device(device)) == 16


def test_layers_computed_again_give_the_same_gradients_from_less_memory():
    prompts, actions = ragged(5)
    kept = []

    def gradients(share, spared=0):
        fresh = AdaptedBase(load("tiny", device=CPU), ["a_0"], LoraSettings(targets=ATTENTION), seed=0)
        fresh.recompute_layers(share, spared=spared)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
            hidden = action_hidden(fresh.trunk, prompts, actions, CPU)
        kept.append(sum(sizes))
        return torch.autograd.grad(hidden.square().sum(), list(fresh.parameters("a_0").values()))

    plain = gradients(0.0)
    for share in (0.5, 1.0):
        assert all(map(torch.equal, plain, gradients(share)))
    distinct = len(DepthFirst.of([np.append(p, a[:-1]) for p, a in zip(prompts, actions, strict=True)]).tokens)
    for spared in (distinct - 1, distinct):  # a pass of few tokens recomputes nothing
        assert all(map(torch.equal, plain, gradients(0.5, spared)))
    none, half, all_layers, large, small = kept
    assert all_layers < none / 5
    assert all_layers < half < 0.7 * none
    assert (large, small) == (half, none)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_layers_computed_again_have_no_dropout(share):
    """OPT's layers call the function `dropout` in their own mode; transformers checkpoints in training mode only."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = AutoModelForCausalLM.from_config(OPTConfig(vocab_size=259, word_embed_proj_dim=32, dropout=0.5, **shape))
    pretrained = Pretrained("opt", "", model.eval().requires_grad_(False), byte_tokenizer())
    base = AdaptedBase(pretrained, ["a_0"], LoraSettings(), seed=0)
    prompts, actions = ragged(5)

    def gradients():
        hidden = action_hidden(base.trunk, prompts, actions, CPU)
        return torch.autograd.grad(hidden.square().sum(), list(base.parameters("a_0").values()))

    plain = gradients()
    base.recompute_layers(share)
    recomputed = [layer.gradient_checkpointing for layer in base.trunk.decoder.layers]
    assert sum(recomputed) == share * len(recomputed)
    for _ in range(2):
        assert all(map(torch.equal, plain, gradients()))


def test_actions_with_and_without_a_recorded_support_are_scored_together(base):
    prompts, actions = ragged(6, rows=2)
    sampling, kept = SamplingParams(), np.asarray([0, 1, 2, 7], np.int32)

    def action(i, support):
        size = len(actions[i])
        chosen = (kept,) * size if support else None
        return Action("", prompts[i], actions[i], np.zeros(size, np.float32), False, chosen)

    mixed = [action(0, False), action(1, True), action(2, False)]
    scorer = LogProbScorer(sampling, PassSize(8))
    together = scorer.logprobs(base, "a_0", mixed)
    for one, found in zip(mixed, together, strict=True):
        assert np.abs(scorer.logprobs(base, "a_0", [one])[0] - found).max() < 1e-5
    assert np.abs(together[1] - scorer.logprobs(base, "a_0", [action(1, False)])[0]).max() > 1e-2


def test_a_graph_of_the_entropy_is_kept_only_where_it_is_asked_for(base):
    prompts, actions = ragged(6, rows=2)
    made = [
        Action("", p, a, np.zeros(len(a), np.float32), False) for p, a in zip(prompts[:2], actions[:2], strict=True)
    ]
    scorer = LogProbScorer(SamplingParams(), PassSize(8))
    plain, kept = scorer.score(base, "a_0", made), scorer.score(base, "a_0", made, entropy_gradient=True)
    assert plain.logprobs.requires_grad
    assert kept.logprobs.requires_grad
    assert (plain.entropy.requires_grad, kept.entropy.requires_grad) == (False, True)


# ------------------------------------------------------------------ generation


def sample(base, prompts, sampling, seeds, adapters=("a_0",), max_rows=128):
    wanted = zip(prompts, seeds, itertools.cycle(adapters))
    asked = [Prompt(ids, np.random.default_rng(seed), adapter) for ids, seed, adapter in wanted]
    return generate(base, asked, sampling, max_rows=max_rows)


SAMPLINGS = [
    SamplingParams(max_new_tokens=12),
    SamplingParams(temperature=0.8, top_k=30, top_p=0.9, max_new_tokens=12),
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("seed", range(4))
def test_recorded_logprobs_are_those_of_a_plain_forward(base, sampling, seed):
    prompts, _ = ragged(seed)
    actions = sample(base, prompts, sampling, range(len(prompts)), ["b_0"])
    with base.active_adapter("b_0"), torch.no_grad():
        for prompt, action in zip(prompts, actions, strict=True):
            logits = scale(base.head(plain_hidden(base, prompt, action.token_ids)), sampling)
            if action.support is not None:
                for row, allowed in zip(logits, action.support, strict=True):
                    forbidden = torch.ones(len(row), dtype=torch.bool)
                    forbidden[torch.as_tensor(allowed, dtype=torch.long)] = False
                    row[forbidden] = -torch.inf
            wanted = logits.log_softmax(-1)[range(len(action.token_ids)), action.token_ids.tolist()]
            assert np.abs(wanted.numpy() - action.logprobs).max() < 1e-4


def test_a_row_does_not_depend_on_its_neighbours(base):
    prompts, _ = ragged(3)
    together = sample(base, prompts, SAMPLINGS[0], range(len(prompts)))
    for i in (0, 5, len(prompts) - 1):
        [alone] = sample(base, [prompts[i]], SAMPLINGS[0], [i])
        assert alone.token_ids.tolist() == together[i].token_ids.tolist()
        assert np.abs(alone.logprobs - together[i].logprobs).max() < 1e-4


def test_prompts_without_a_common_beginning(base):
    prompts = [np.asarray(ids, np.int32) for ids in ([5], [6], [7, 8], [9])]
    for i, action in enumerate(sample(base, prompts, SAMPLINGS[0], range(4))):
        [alone] = sample(base, [prompts[i]], SAMPLINGS[0], [i])
        assert alone.token_ids.tolist() == action.token_ids.tolist()
        assert np.abs(alone.logprobs - action.logprobs).max() < 1e-4


def test_adapters_mix_in_one_batch_and_rows_wait_for_a_place(base):
    prompts, _ = ragged(2, rows=24)
    wearers = ["a_0", None, "b_0"]
    mixed = sample(base, prompts, SAMPLINGS[0], range(24), wearers)
    few = sample(base, prompts, SAMPLINGS[0], range(24), wearers, max_rows=5)
    for i, action in enumerate(mixed):
        [alone] = sample(base, [prompts[i]], SAMPLINGS[0], [i], [wearers[i % 3]])
        for other in (alone, few[i]):
            assert other.token_ids.tolist() == action.token_ids.tolist()
            assert np.abs(other.logprobs - action.logprobs).max() < 1e-4
    [bare] = sample(base, prompts[:1], SAMPLINGS[0], [0], [None])
    assert np.abs(bare.logprobs[0] - mixed[0].logprobs[0]) > 1e-4, "the adapters of this test change nothing"


def test_a_row_sees_nothing_of_the_row_that_had_its_place():
    cache = KVCache(CPU)
    infinite = torch.full((5, 1, 4), torch.inf)
    family = [PrefixFamily((0, 1), 2)]
    cache.add({0: (infinite, infinite)}, [np.arange(5)] * 2, family, 8)
    cache.keep([])
    for length in (3, 6):  # the longer one makes the other read further than it has written
        tokens = torch.ones(length, 1, 4)
        cache.add({0: (tokens, tokens)}, [np.arange(length)] * 2, family, 8)
    for buffer in (*cache.rows(0, 4), *cache.families(0, 2)):
        assert buffer.isfinite().all()


def test_a_sliding_window_is_kept():
    """Layers that look back only so far: compared with transformers' own masks, in scores and in generation."""
    pretrained = windowed_model()
    model = pretrained.model
    base = AdaptedBase(pretrained, ["a_0"], LoraSettings(), seed=0)
    prompts, _ = ragged(4, rows=9)
    for prompt, action in zip(prompts, sample(base, prompts, SAMPLINGS[0], range(12)), strict=True):
        ids = torch.as_tensor(np.concatenate([prompt, action.token_ids[:-1]]), dtype=torch.long)
        logits = model(ids[None]).logits[0, len(prompt) - 1 :].detach()
        wanted = logits.log_softmax(-1)[range(len(action.token_ids)), action.token_ids.tolist()]
        assert np.abs(wanted.numpy() - action.logprobs).max() < 1e-4
        hidden = action_hidden(base.trunk, [prompt], [action.token_ids], CPU)
        assert (base.head(hidden) - logits).abs().max() < 1e-4


@pytest.mark.parametrize(
    "config",
    [
        CohereConfig(vocab_size=259, num_key_value_heads=2, logit_scale=0.1, pad_token_id=0, **SHAPE),
        Gemma2Config(vocab_size=259, num_key_value_heads=2, head_dim=8, attn_logit_softcapping=0.01, **SHAPE),
        BloomConfig(vocab_size=259, hidden_size=32, n_layer=2, n_head=4),
        Lfm2Config(
            vocab_size=259,
            num_key_value_heads=2,
            layer_types=["conv", "full_attention"],
            initializer_range=0.5,
            pad_token_id=0,
            **SHAPE,
        ),
    ],
    ids=["scaled logits", "capped scores", "other positions", "a state beside attention"],
)
def test_a_model_that_would_be_another_one_is_refused(config):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(ModelError, match="wanted a decoder like Llama"):
        install(model)


@pytest.mark.parametrize(
    ("kind", "keywords", "reason"),
    [
        (PhimoeConfig, {"sliding_window": 8, "num_local_experts": 2}, "does not pass its sliding window"),
        (DiffLlamaConfig, {}, "attends more than once in a layer"),
        (
            DeepseekV3Config,
            {"v_head_dim": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "kv_lora_rank": 8, "q_lora_rank": 8},
            "has another form",
        ),
    ],
)
def test_attention_of_another_form_is_refused(kind, keywords, reason):
    torch.manual_seed(0)
    config = kind(
        vocab_size=259, num_key_value_heads=4, max_position_embeddings=256, pad_token_id=0, **keywords, **SHAPE
    )
    with pytest.raises(ModelError, match=f"{reason}.*wanted a decoder like Llama"):
        install(AutoModelForCausalLM.from_config(config).eval())


@pytest.mark.parametrize(("given", "scale"), [({}, 0.5), ({"scaling": None}, 0.5), ({"scaling": 3.0}, 3.0)])
def test_scores_are_scaled_as_the_model_says_else_by_the_root_of_the_width(base, given, scale):
    class Layer(torch.nn.Module):
        layer_idx = 7

    class Seen:
        def attend(self, *asked):
            self.asked = asked
            return asked[1]

    seen, query, key, value = Seen(), *torch.randn(3, 1, 2, 5, 4)  # [B, H, S, d]
    attention = AttentionInterface()[base.peft.config._attn_implementation]
    out, weights = attention(Layer(), query, key, value, None, seen_by=seen, sliding_window=6, **given)
    assert out is query
    assert weights is None
    assert seen.asked == (7, query, key, value, scale, 6)


def test_positions_that_depend_on_the_longest_row_are_refused_beyond_the_first_context():
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    config = LlamaConfig(vocab_size=259, max_position_embeddings=64, rope_parameters=rope, **SHAPE)
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    base = AdaptedBase(Pretrained("dynamic", "", model, byte_tokenizer()), ["a_0"], LoraSettings(), seed=0)
    local_agents = {"a_0": LocalAgent(base, "a_0")}
    sampling = SamplingParams(max_new_tokens=14)
    assert LanguageModelTeam(local_agents, sampling).windows == {"a_0": 64}
    with pytest.raises(SettingsError, match="context_window = 65: model 'dynamic' reads at most 64 tokens"):
        LanguageModelTeam(local_agents, sampling, context=ContextSettings(65))


@pytest.mark.parametrize("seed", range(5))
def test_families_cover_all_rows_and_begin_alike(seed):
    prompts, _ = ragged(seed)
    prompts = prompts + prompts[:3]
    found = families(prompts)
    assert sorted(row for family in found for row in family.rows) == list(range(len(prompts)))
    for family in found:
        assert len({prompts[row][: family.shared].tobytes() for row in family.rows}) == 1
        assert all(family.shared < len(prompts[row]) for row in family.rows)
    stored = sum(f.shared + sum(len(prompts[row]) - f.shared for row in f.rows) for f in found)
    assert stored < 0.8 * sum(map(len, prompts))


def test_the_end_token_is_recorded_and_rows_end_by_themselves(base, monkeypatch):
    """Make the end token likely: rows stop at different steps, leave the batch, and the rest goes on unharmed."""
    prompts, _ = ragged(1, rows=30)
    bias = torch.zeros(base.head.out_features)
    bias[list(base.end_ids)] = 4.0

    plain_head = base.head

    def head(states):
        return plain_head(states) + bias

    monkeypatch.setattr(base, "head", head)
    actions = sample(base, prompts, SAMPLINGS[0], range(len(prompts)), max_rows=7)
    with base.active_adapter("a_0"), torch.no_grad():
        for prompt, action in zip(prompts, actions, strict=True):
            logits = head(plain_hidden(base, prompt, action.token_ids))
            wanted = logits.log_softmax(-1)[range(len(action.token_ids)), action.token_ids.tolist()]
            assert np.abs(wanted.numpy() - action.logprobs).max() < 1e-4
    lengths = {len(a.token_ids) for a in actions}
    assert len(lengths) > 2
    for action in actions:
        ends = [t in base.end_ids for t in action.token_ids.tolist()]
        assert ends[-1] == action.stopped
        assert not any(ends[:-1])
        assert action.text == base.tokenizer.decode(
            action.token_ids[: len(ends) - action.stopped], skip_special_tokens=True
        )


def test_generation_keeps_nothing_for_a_backward_pass(base):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        sample(base, ragged(0)[0][:3], SAMPLINGS[0], range(3))
        assert kept == []
        action_hidden(base.trunk, *ragged(0), CPU)
        assert kept  # scoring does


def test_generation_leaves_global_generators_alone(base):
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].tolist()
    sample(base, ragged(0)[0], SAMPLINGS[0], range(15))
    assert torch.equal(torch_state, torch.random.get_rng_state())
    assert np.random.get_state()[1].tolist() == numpy_state
