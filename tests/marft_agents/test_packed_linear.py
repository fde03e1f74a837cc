"""Linear layers with packed bfloat16 weights: the same products and gradients; other layers are left alone."""

import copy

import pytest
import torch
from torch import nn

from marft_agents.models.packed_linear import pack

NEEDS_PRODUCTS = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this processor has no bfloat16 products"
)


def frozen(bias=False, dtype=torch.bfloat16):
    torch.manual_seed(0)
    return nn.Linear(96, 160, bias=bias, dtype=dtype).requires_grad_(False)


@NEEDS_PRODUCTS
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


def test_layers_that_are_trained_or_in_float32_are_left_alone():
    assert pack(frozen(dtype=torch.float32)) == 0
    assert pack(frozen().requires_grad_()) == 0
