"""Fused norms, rotary embeddings and adapters: numbers and gradients of transformers and PEFT, in fewer operators."""

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM, CohereConfig, GemmaConfig, LlamaConfig, PhiConfig, Qwen3Config

from marft_agents.models import fused_layers, tree_attention
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.fused_layers import fuse
from marft_agents.models.pretrained import Pretrained, load
from marft_agents.models.random_models import LINEAR_LAYERS, byte_tokenizer
from marft_agents.models.tree_attention import fast_products, install
from tests.helpers.adapted_models import SHAPE, adapted
from tests.helpers.operators import Operators

CPU = torch.device("cpu")
IDS = torch.arange(5, 45).view(2, 20)


def model_of(config, dtype=torch.float32):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        config(vocab_size=99, num_key_value_heads=2, **SHAPE), attn_implementation="sdpa"
    )
    for name, tensor in model.named_parameters():
        if "norm" in name:
            tensor.data.uniform_(-0.5, 1.5)
    return model.to(dtype).eval().requires_grad_(False)


def fused(model):
    """Names of the layers that were replaced."""
    return {name for name, module in model.named_modules() if "forward" in vars(module)}


def states_and_gradient(model):
    inputs = model.get_input_embeddings()(IDS).requires_grad_()
    states = model(inputs_embeds=inputs).logits
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(1))
    return states, torch.autograd.grad((states.float() * weights).sum(), inputs)[0]


def distance(found, wanted):
    return float(((found - wanted).norm() / wanted.norm()).detach())


@pytest.mark.parametrize(("config", "norms"), [(LlamaConfig, 5), (Qwen3Config, 9), (PhiConfig, 0), (GemmaConfig, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_and_gradients_stay_those_of_transformers(config, norms, dtype):
    plain = model_of(config, dtype)
    own = copy.deepcopy(plain)
    undo = fuse(own)
    found = fused(own)
    assert len([name for name in found if name.endswith("norm")]) == norms  # Gemma's multiply by 1 + weight
    assert len([name for name in found if name.endswith("self_attn")]) == 2
    for one, other in zip(states_and_gradient(own), states_and_gradient(plain), strict=True):
        assert distance(one, other) < (1e-6 if dtype == torch.float32 else 2e-2)
    undo()
    assert not fused(own)
    assert all(map(torch.equal, states_and_gradient(own), states_and_gradient(plain)))


def test_rotations_of_another_kind_are_left_alone():
    model = model_of(CohereConfig)  # it rotates neighbours, not halves
    fuse(model)
    assert not fused(model)


def test_gradients_are_those_of_differences():
    generator = torch.Generator().manual_seed(0)
    query, cos, sin = (torch.randn(1, 2, 3, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    query.requires_grad_()
    assert torch.autograd.gradcheck(lambda q: fused_layers.rotated(q, q, cos[:, 0], sin[:, 0]), query)
    norm = torch.nn.RMSNorm(4, eps=0.1).double().requires_grad_(False)
    norm.weight.data.uniform_(0.5, 2)
    assert torch.autograd.gradcheck(lambda x: fused_layers._norm(norm, 0.1, x), query, atol=1e-5, rtol=1e-3)


def test_a_norm_in_training_trains_its_weight():
    model = model_of(LlamaConfig)
    fuse(model)
    weight = model.model.norm.weight.requires_grad_()
    assert torch.autograd.grad(model(IDS).logits.sum(), weight)[0].abs().max() > 0


def test_a_model_whose_fused_layers_differ_keeps_its_own(monkeypatch):
    def wrong(model):
        def undo():
            del model.model.norm.forward

        model.model.norm.forward = lambda x: x + 1
        return undo

    monkeypatch.setattr(tree_attention, "fuse", wrong)
    plain, model = model_of(LlamaConfig), model_of(LlamaConfig)
    with pytest.warns(UserWarning, match="LlamaForCausalLM: its fused norms and rotary embeddings give other logits"):
        install(model)
    assert not fused(model)
    assert distance(model(IDS).logits, plain(IDS).logits) < 1e-6


@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), LINEAR_LAYERS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_adapter_has_the_states_and_gradients_of_peft(targets, dtype):
    base = adapted(load("tiny", device=CPU, dtype=dtype), LoraSettings(targets=targets, alpha=12))
    tensors = list(base.parameters("b_0").values())
    for tensor in tensors:
        tensor.data = 0.2 * tensor.data  # else float error grows from layer to layer

    def measured():
        with base.active_adapter("b_0"):
            states = base.trunk(input_ids=IDS).last_hidden_state.float()
        weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(1))
        return states, *torch.autograd.grad((states * weights).sum(), tensors)

    found = measured()
    for module in base.peft.modules():
        if hasattr(module, "lora_A") and "forward" in vars(module):
            del module.forward  # PEFT's own
    wanted = measured()
    flat = [torch.cat([part.flatten() for part in parts]) for parts in (found[1:], wanted[1:])]
    assert distance(*flat) < (1e-6 if dtype == torch.float32 else 2e-2)
    assert distance(found[0], wanted[0]) < (1e-6 if dtype == torch.float32 else 1e-2)


def test_layers_called_twice_on_one_input_see_what_changed_in_between():
    base = adapted(load("tiny", device=CPU), LoraSettings(targets=LINEAR_LAYERS))
    attention = base.trunk.layers[0].self_attn
    x = torch.randn(1, 3, 32)
    layers = attention.q_proj, attention.k_proj, attention.v_proj
    for adapter in ("a_0", "b_0", None, "a_0"):
        with base.active_adapter(adapter):
            found = [layer(x) for layer in layers]
            wanted = [type(layer).forward(layer, x) for layer in layers]
        assert all(distance(a, b) < 1e-6 for a, b in zip(found, wanted, strict=True))
        for tensor in base.parameters("a_0").values():
            tensor.data = 2 * tensor.data


def test_coarser_products_are_for_coarser_trunks_on_cuda_only():
    before = torch.get_float32_matmul_precision()
    cuda = torch.device("cuda")
    for dtype, device, wanted in (
        (torch.float32, cuda, before),
        (torch.bfloat16, CPU, before),
        (torch.bfloat16, cuda, "high"),
    ):
        with fast_products(dtype, device):
            found = torch.get_float32_matmul_precision()
        assert found == wanted
        assert torch.get_float32_matmul_precision() == before
    assert before == "highest"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_of_the_trunk_takes_few_operators(dtype):
    """With an attention of one operator: what else there is depends on who attends."""

    class Attention:
        def attend(self, layer, query, key, value, scale, window):
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=scale).transpose(1, 2)

    counts = []
    for layers in (2, 4):
        torch.manual_seed(0)
        config = LlamaConfig(vocab_size=99, **{**SHAPE, "num_hidden_layers": layers})
        model = AutoModelForCausalLM.from_config(config).to(dtype).eval().requires_grad_(False)
        base = adapted(Pretrained("x", "", model, byte_tokenizer()))
        base.refresh_adapters()
        with torch.no_grad(), base.adapters_of_rows(torch.tensor([[0], [1]])), Operators() as decode:
            tree_attention.run(base.trunk, IDS, torch.arange(20).expand(2, -1), Attention())
        with base.active_adapter("a_0"), Operators() as forward:
            states = tree_attention.run(base.trunk, IDS, torch.arange(20).expand(2, -1), Attention())
        with Operators() as backward:
            torch.autograd.grad(states.float().sum(), list(base.parameters("a_0").values()))
        counts.append([decode.total, forward.total, backward.total])
    decode, forward, backward = ((b - a) / 2 for a, b in zip(*counts, strict=True))
    assert decode <= 28
    assert forward <= 29
    assert backward <= 70
