"""Linear layers with packed weights: the same products and gradients; other layers are left alone."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from marft_agents.generation.continuous_batching import Prompt, generate
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.pass_size import PassSize
from marft_agents.learning.scoring import LogProbScorer
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.packed_linear import MOST_ROWS, pack
from marft_agents.models.pretrained import load
from marft_agents.policies import team_building
from tests.helpers.adapted_models import stir

NEEDS_BFLOAT16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bfloat16 products on this processor"
)
NEEDS_FLOAT16 = pytest.mark.skipif(
    torch.backends.quantized.engine not in ("x86", "fbgemm"), reason="this torch has no products with float16 weights"
)


def frozen(bias=False, dtype=torch.bfloat16):
    torch.manual_seed(0)
    return nn.Linear(96, 160, bias=bias, dtype=dtype).requires_grad_(False)


@NEEDS_BFLOAT16
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1,), (16,), (2, 7), (3, 200)])
def test_products_and_gradients_are_those_of_the_plain_layer(bias, shape):
    plain = frozen(bias)
    packed = copy.deepcopy(plain)
    assert pack(packed) == 1
    rows = torch.randn(*shape, 96, dtype=torch.bfloat16)
    results = []
    for layer in (plain, packed):
        x = rows.clone().requires_grad_()
        out = layer(x)
        (gradient,) = torch.autograd.grad(out.float().square().sum(), x)
        results.append((out.detach(), gradient))
    for before, now in zip(*results, strict=True):
        assert torch.equal(before, now)


def held_by_float16(bias=False):
    layer = frozen(bias).float()
    with torch.no_grad():
        layer.weight[0, 0] = 1e-7  # smaller than any normal number of float16
    return layer


@NEEDS_FLOAT16
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1,), (1, 16), (8, 1), (MOST_ROWS,)])
def test_few_rows_with_float16_weights_give_the_float32_products(bias, shape):
    plain = held_by_float16(bias)
    packed = copy.deepcopy(plain)
    assert pack(packed) == 1
    rows = torch.randn(*shape, 96)
    with torch.no_grad():
        found, wanted = packed(rows), plain(rows)
    assert found.shape == wanted.shape
    assert not torch.equal(found, wanted)  # by another library
    assert torch.allclose(found, wanted, rtol=0, atol=1e-5)


@NEEDS_FLOAT16
@pytest.mark.parametrize(("rows", "gradient"), [(MOST_ROWS + 1, False), (4, True)])
def test_many_rows_and_gradients_use_the_plain_weights(rows, gradient):
    plain = held_by_float16(bias=True)
    packed = copy.deepcopy(plain)
    pack(packed)
    results = []
    for layer in (plain, packed):
        torch.manual_seed(1)
        x = torch.randn(rows, 96, requires_grad=gradient)
        out = layer(x)
        results.append(torch.autograd.grad(out.square().sum(), x)[0] if gradient else out)
    assert torch.equal(*results)


@NEEDS_FLOAT16
def test_every_adapter_on_packed_weights_samples_what_it_scores(monkeypatch):
    """PEFT freezes all adapters but one; their layers must not be packed."""

    def rounded(name, **given):
        pretrained = load(name, **given)
        for weight in pretrained.model.parameters():
            weight.data = weight.half().float()
        return pretrained

    monkeypatch.setattr(team_building, "load", rounded)
    sampling, cpu = SamplingParams(max_new_tokens=6), torch.device("cpu")
    team = team_building.build_team(["a_0", "b_0"], {"*": "tiny"}, lora=LoraSettings(), sampling=sampling, device=cpu)
    [base] = team.bases
    stir(base)
    ids, adapters = np.arange(5, 40, dtype=np.int32), [None, "a_0", "b_0"] * 2
    actions = generate(base, [Prompt(ids, np.random.default_rng(i), name) for i, name in enumerate(adapters)], sampling)
    scorer = LogProbScorer(sampling, PassSize(16))
    for action, adapter in zip(actions, adapters, strict=True):
        [scored] = scorer.logprobs(base, adapter, [action])
        assert np.abs(np.asarray(scored) - action.logprobs).max() < 1e-4
        assert adapter is None or np.abs(np.asarray(scorer.logprobs(base, None, [action])[0]) - scored).max() > 1e-2


class OtherLinear(nn.Linear):
    """Computes something else than its parent."""

    def forward(self, x):
        return super().forward(x).exp()


def test_subclasses_are_left_alone():
    layer = OtherLinear(96, 160).requires_grad_(False)
    layer.weight.data = layer.weight.half().float()
    assert pack(layer) == 0


def test_layers_that_are_trained_or_have_more_digits_are_left_alone():
    torch.manual_seed(0)
    assert pack(nn.Linear(96, 160).requires_grad_(False)) == 0
    small = held_by_float16()
    small.weight.data *= 1e-7  # of these float16 holds a digit or two
    assert pack(small) == 0
    large = held_by_float16()
    large.weight.data[0, 0] = 1e5  # beyond float16
    assert pack(large) == 0
    assert pack(frozen().requires_grad_()) == 0
    assert pack(held_by_float16().requires_grad_()) == 0
