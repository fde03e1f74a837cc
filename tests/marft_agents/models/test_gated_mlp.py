"""Gated feed-forward layers that keep less: same numbers and gradients, fewer tensors; others are left alone."""

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, OlmoConfig, PhiConfig
from transformers.models.llama.modeling_llama import LlamaMLP

from marft_agents.models.gated_mlp import keep_less

SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
IDS = torch.arange(40).view(2, 20)


def llama(**more):
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(LlamaConfig(**SHAPE, **more)).eval()


def run(model):
    """Return the loss, the gradient of every weight, and how many numbers autograd kept."""
    sizes = {}

    def keep(x):
        sizes[x.untyped_storage().data_ptr(), x.storage_offset()] = x.numel()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        loss = model(IDS, labels=IDS).loss
    return loss, torch.autograd.grad(loss, list(model.parameters())), sum(sizes.values())


@pytest.mark.parametrize("act", ["silu", "gelu_pytorch_tanh", "relu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_all_gradients_stay(act, dtype):
    plain = llama(hidden_act=act).to(dtype)
    lean = copy.deepcopy(plain)
    assert keep_less(lean) == 2
    (loss, gradients, kept), (lean_loss, lean_gradients, lean_kept) = run(plain), run(lean)
    assert torch.equal(loss, lean_loss)
    for wanted, found in zip(gradients, lean_gradients, strict=True):
        assert (found - wanted).abs().max() <= (1e-6 if dtype == torch.float32 else 1e-2) * wanted.abs().max()
    if act != "relu":  # it keeps its result, which is the product's factor too
        assert kept - lean_kept >= 2 * IDS.numel() * SHAPE["intermediate_size"]


def test_gradients_are_those_of_differences():
    layer = LlamaMLP(LlamaConfig(**SHAPE)).double()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

    assert keep_less(Model()) == 1
    assert torch.autograd.gradcheck(layer, torch.randn(3, 32, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("config", [OlmoConfig(**SHAPE), PhiConfig(**SHAPE)])
def test_models_work_whether_they_have_such_layers_or_not(config):
    torch.manual_seed(0)
    plain = AutoModelForCausalLM.from_config(config).eval()
    lean = copy.deepcopy(plain)
    assert keep_less(lean) == (2 if isinstance(config, OlmoConfig) else 0)
    assert torch.equal(run(plain)[0], run(lean)[0])


@pytest.mark.parametrize("limit", [0.01, 7.0, 100.0])
def test_a_layer_that_computes_something_else_is_left_alone(limit):
    class Clamped(LlamaMLP):
        def forward(self, x):
            return self.down_proj(self.act_fn(self.gate_proj(x)).clamp(max=limit) * self.up_proj(x))

    model = llama()
    model.model.layers[0].mlp = Clamped(model.config)
    wanted = model(IDS).logits
    assert keep_less(model) == 1
    assert torch.equal(model(IDS).logits, wanted)


def test_a_layer_that_looks_at_other_tokens_is_left_alone():
    class Shifted(LlamaMLP):
        def forward(self, x):
            return super().forward(x.roll(1, dims=-2))

    model = llama()
    model.model.layers[1].mlp = Shifted(model.config)
    wanted = model(IDS).logits
    assert keep_less(model) == 1
    assert torch.equal(model(IDS).logits, wanted)
