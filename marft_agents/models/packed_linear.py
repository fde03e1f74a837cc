"""Linear layers with frozen weights, stored once more in a layout in which a CPU multiplies few rows fast.

A product of few rows costs as much as reading the weights.

- bfloat16: oneDNN, torch's library for such products, brings plain weights into its own layout in every call. Here that
  is done once. The results are the same, bit by bit.
- float32: weights that float16 can hold are read as float16 and multiplied in float32, by FBGEMM. That is half the
  memory to read, and the results are the same to float error. Published weights are mostly bfloat16, which float16
  holds but for what lies below its smallest number.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

MOST_ROWS = 32  # of a product with float16 weights: with more, reading the weights no longer bounds it
TINY = 2.0**-25  # largest rounding error of float16 below 2^-13: of numbers so small it has fewer digits


def pack(model: Any) -> int:
    """Give every linear layer with a frozen weight on the CPU a packed copy of it where that makes it faster.

    A copy takes two bytes for each weight. Weights must not change afterwards, so a model is packed before it gets
    adapters. Subclasses of `nn.Linear`, which may compute something else, are left alone.

    Returns:
        Number of layers that were changed: none on a processor or in a build of torch without such products.
    """
    changed = 0
    for module in model.modules():
        if type(module) is not nn.Linear or module.weight.device.type != "cpu" or module.weight.requires_grad:
            continue
        if module.weight.dtype == torch.bfloat16 and _packs_bfloat16():
            packed = torch.ops.mkldnn._reorder_linear_weight(module.weight)
            module.forward = partial(_bfloat16_forward, module, packed)  # type: ignore[method-assign]
            changed += 1
        elif module.weight.dtype == torch.float32 and _packs_float16() and _fits_float16(module.weight):
            packed = torch.ops.quantized.linear_prepack_fp16(module.weight, module.bias)
            module.forward = partial(_float32_forward, module, packed)  # type: ignore[method-assign]
            changed += 1
    return changed


def _packs_bfloat16() -> bool:
    return torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _packs_float16() -> bool:
    return torch.backends.quantized.engine in ("x86", "fbgemm")


def _fits_float16(weight: Tensor) -> bool:
    """Return True if rounding changes no weight by more than float error of the largest."""
    allowed = min(TINY, 2.0**-20 * weight.abs().max().item())
    return bool((weight.half().float() - weight).abs().max() <= allowed)


def _float32_forward(module: nn.Linear, packed: Any, x: Tensor) -> Tensor:
    """Return the layer's output [..., out] for x [..., in]; its gradient, and many rows, use the plain weight."""
    if x.numel() > MOST_ROWS * x.shape[-1] or (torch.is_grad_enabled() and x.requires_grad):
        return linear(x, module.weight, module.bias)
    product: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, packed)
    return product


def _bfloat16_forward(module: nn.Linear, packed: Tensor, x: Tensor) -> Tensor:
    product: Tensor = _Product.apply(x, module.weight, packed, module.bias)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    """Product of rows with a packed weight; its gradient uses the plain one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
        """Return `x @ weight.T + bias`, shape [..., out], for x [..., in] and weight [out, in]."""
        ctx.save_for_backward(weight)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
        return product

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of the rows; the weight has none."""
        (weight,) = ctx.saved_tensors
        return gradient @ weight, None, None, None
