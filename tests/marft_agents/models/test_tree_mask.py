"""Tree attention by one mask: the states and gradients of single sequences, in as many operators for any tree."""

import os

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from transformers import LlamaConfig, LlamaForCausalLM

from marft_agents.models import tree_mask
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.prefix_tree import build_levels
from marft_agents.models.pretrained import Pretrained, load
from marft_agents.models.random_models import LINEAR_LAYERS, byte_tokenizer
from marft_agents.models.tree_attention import TreeAttention, run
from marft_agents.models.tree_mask import DepthFirst, TreeMask, disagreement, lay_out
from marft_agents.policies.token_log_probs import action_hidden
from tests.helpers.adapted_models import SHAPE, adapted, windowed_model
from tests.helpers.operators import Operators

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bases():
    targets = LoraSettings(targets=("q_proj", "v_proj"))
    return {"all": adapted(load("tiny", device=CPU), targets), "window": adapted(windowed_model(), targets)}


def forest(seed, rows=12, symbols=2):
    """Sequences over few symbols, which part at every depth; some are alike, some begin another."""
    rng = np.random.default_rng(seed)
    trees = [rng.integers(5, 200, rng.integers(1, 9)) for _ in range(3)]
    found = [
        np.concatenate([trees[rng.integers(3)], rng.integers(0, symbols, rng.integers(0, 14))]).astype(np.int32)
        for _ in range(rows)
    ]
    return [*found, found[0], found[1][:1], found[2][: len(found[2]) // 2 + 1]]


def reference_flex(query, key, value, *, block_mask, scale):
    """FlexAttention written out, with a gradient: torch has none on a CPU."""
    rows, columns = torch.arange(query.shape[2])[:, None], torch.arange(key.shape[2])[None]
    seen = block_mask.mask_mod(0, 0, rows, columns)
    scores = (query * scale) @ key.transpose(-1, -2)
    return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value


def distance(found, wanted):
    return float(((found - wanted).norm() / wanted.norm()).detach())


@pytest.mark.parametrize("seed", range(6))
def test_tokens_stand_in_depth_first_order_and_see_their_own_path(seed):
    sequences = forest(seed)
    tree = DepthFirst.of(sequences)
    assert len(tree.tokens) == len({s[:n].tobytes() for s in sequences for n in range(1, len(s) + 1)})
    count = len(tree.tokens)
    seen = {(q, k) for q in range(count) for k in range(count) if k <= q <= tree.end[k]}
    wanted = set()
    for sequence, path in zip(sequences, tree.paths, strict=True):
        assert tree.tokens[path].tolist() == sequence.tolist()
        assert tree.depth[path].tolist() == list(range(len(path)))
        wanted |= {(q, k) for i, q in enumerate(path.tolist()) for k in path[: i + 1].tolist()}
    assert seen == wanted


@pytest.mark.parametrize("model", ["all", "window"])
@pytest.mark.parametrize("flex", [None, reference_flex])
@pytest.mark.parametrize("seed", range(2))
def test_states_and_gradients_are_those_of_levels_and_of_single_sequences(bases, model, flex, seed):
    base, sequences = bases[model], forest(seed)
    tensors = list(base.parameters("a_0").values())
    states, gradients = [], []
    masked = TreeMask(DepthFirst.of(sequences), CPU, flex)
    levels = TreeAttention(build_levels(sequences, [2, 5, 9, 12]), CPU)
    with base.active_adapter("a_0"):
        for tree in (masked, levels):
            hidden = run(base.trunk, tree.tokens, tree.positions, tree)[0]
            states.append(torch.cat([hidden[torch.as_tensor(path)] for path in tree.paths_of(sequences)]))
        alone = [
            base.trunk(input_ids=torch.as_tensor(s, dtype=torch.long)[None]).last_hidden_state[0] for s in sequences
        ]
        states.append(torch.cat(alone))
    weights = torch.randn(states[0].shape, generator=torch.Generator().manual_seed(0))
    for found in states:
        parts = torch.autograd.grad((found * weights).sum(), tensors)
        gradients.append(torch.cat([part.flatten() for part in parts]))
    for other in (1, 2):
        assert distance(states[0], states[other]) < 1e-6
        assert distance(gradients[0], gradients[other]) < 2e-6


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("window", [None, 4])
def test_flex_attention_gives_what_a_dense_mask_gives(window):
    tree = DepthFirst.of(forest(0, rows=40))
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, heads, len(tree.tokens), 16, generator=generator) for heads in (6, 2, 2)]
    wanted = TreeMask(tree, CPU).attend(0, *inputs, 0.25, window)
    assert distance(TreeMask(tree, CPU, flex_attention).attend(0, *inputs, 0.25, window), wanted) < 1e-6


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("seed", range(9))
def test_blocks_hold_every_visible_pair_and_whole_ones_nothing_else(monkeypatch, window, seed):
    monkeypatch.setattr(tree_mask, "BLOCK", 8)
    tree = DepthFirst.of([*forest(seed, rows=25), np.arange(40, dtype=np.int32)])
    count = len(tree.tokens)
    mask = TreeMask(tree, CPU)
    token = torch.arange(count)
    pairs = mask._seen(window)(token[:, None], token[None]).numpy()
    padded = np.zeros([-(-n // 8) * 8 for n in pairs.shape], bool)
    padded[:count, :count] = pairs
    blocks = padded.reshape(padded.shape[0] // 8, 8, padded.shape[1] // 8, 8)
    some, whole = mask._visible_blocks(window)
    assert not (blocks.any((1, 3)) & ~some).any()
    assert not (whole & ~blocks.all((1, 3))).any()
    built = mask._blocks(window)
    assert isinstance(built, BlockMask)
    assert (built.to_dense()[0, 0].bool().numpy() == some).all()
    if window is None:
        assert (some == blocks.any((1, 3))).mean() > 0.9  # few blocks are computed for nothing
        assert whole.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), LINEAR_LAYERS])
def test_a_layer_takes_few_operators_however_answers_share_beginnings(monkeypatch, dtype, targets):
    rng = np.random.default_rng(0)
    prompts = [rng.integers(5, 99, 30).astype(np.int32)] * 8
    apart = [rng.integers(5, 99, 12).astype(np.int32) for _ in prompts]
    alike = [np.concatenate([apart[0][: 2 + i], own])[: 12 - i % 3] for i, own in enumerate(apart)]

    def counted(actions):
        counts = []
        for layers in (2, 4):
            torch.manual_seed(0)
            config = LlamaConfig(vocab_size=99, num_key_value_heads=2, **{**SHAPE, "num_hidden_layers": layers})
            model = LlamaForCausalLM(config).to(dtype).eval().requires_grad_(False)
            base = adapted(Pretrained("x", "", model, byte_tokenizer()), LoraSettings(targets=targets))
            with base.active_adapter("a_0"), Operators() as forward:
                hidden = action_hidden(base.trunk, prompts, actions, CPU)
            with Operators() as backward:
                torch.autograd.grad(hidden.float().sum(), list(base.parameters("a_0").values()))
            counts.append((forward.total, backward.total))
        return [(b - a) / 2 for a, b in zip(*counts, strict=True)]  # a layer

    monkeypatch.setattr(tree_mask, "DENSE_ON_CPU", 10_000)
    forward, backward = counted(apart)
    assert counted(alike) == [forward, backward]
    assert forward <= 50
    assert backward <= 76
    monkeypatch.setattr(tree_mask, "DENSE_ON_CPU", 0)  # two levels
    forward, backward = counted(alike)
    assert forward <= 60
    assert backward <= 96


def test_few_tokens_take_a_dense_mask_on_a_cpu_and_many_levels(bases):
    trunk = bases["all"].trunk
    assert isinstance(lay_out(forest(0), trunk, CPU), TreeMask)
    assert isinstance(lay_out([np.arange(2000, dtype=np.int32)], trunk, CPU), TreeAttention)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_self_check_finds_wrong_outputs_and_wrong_gradients(dtype, monkeypatch):
    monkeypatch.setattr(tree_mask, "SHORTEST", 64)

    def detached(query, key, value, **given):
        return reference_flex(query, key.detach() + 0 * key, value, **given)

    def unmasked(query, key, value, *, block_mask, scale):
        return (query * scale @ key.transpose(-1, -2)).softmax(-1) @ value

    shape = (4, 2, 8, True)
    assert disagreement(reference_flex, shape, dtype, CPU) is None
    assert "its outputs differ from those of a dense mask" in disagreement(unmasked, shape, dtype, CPU)
    assert "its gradients of keys differ" in disagreement(detached, shape, dtype, CPU)


def test_compiled_kernels_are_kept_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setattr(torch, "compile", lambda function, *, dynamic: (function, dynamic))
    for home in (tmp_path / "file" / "under", tmp_path):
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        assert tree_mask.compiled_flex.__wrapped__() == (flex_attention, True)
        found = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        assert found == (str(tmp_path / "marft" / "inductor") if home == tmp_path else None)


def test_without_flex_attention_a_tree_is_cut_into_levels(bases, monkeypatch):
    def broken():
        raise RuntimeError("no compiler\nand a long story")

    tree_mask._checked.cache_clear()
    monkeypatch.setattr(tree_mask, "compiled_flex", broken)
    with pytest.warns(UserWarning, match="FlexAttention is not used, trees are cut .*: RuntimeError: no compiler$"):
        assert tree_mask.checked_flex(bases["all"].trunk, CPU) is None
    assert tree_mask.checked_flex(bases["all"].trunk, CPU) is None  # it is not tried again
    tree_mask._checked.cache_clear()
    monkeypatch.setattr(tree_mask, "compiled_flex", lambda: reference_flex)
    assert tree_mask.checked_flex(bases["all"].trunk, CPU) is reference_flex
    tree_mask._checked.cache_clear()
