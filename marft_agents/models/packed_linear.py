"""Linear layers with frozen bfloat16 weights, stored once more in the layout in which a CPU multiplies.

A product of few rows costs as much as reading the weights. oneDNN, torch's library for such products, brings plain
weights into its own layout in every call. Here that is done once. The results are the same, bit by bit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


def pack(model: Any) -> int:
    """Give every linear layer with a frozen bfloat16 weight on the CPU a packed copy of it, as large as the weight.

    Weights must not change afterwards.

    Returns:
        Number of layers that were changed: none on a processor without bfloat16 products.
    """
    if not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        return 0
    changed = 0
    for module in model.modules():
        if isinstance(module, nn.Linear) and _is_frozen_bfloat16_on_cpu(module.weight):
            module.forward = partial(_forward, module, torch.ops.mkldnn._reorder_linear_weight(module.weight))  # type: ignore[method-assign]
            changed += 1
    return changed


def _is_frozen_bfloat16_on_cpu(weight: Tensor) -> bool:
    return weight.dtype == torch.bfloat16 and weight.device.type == "cpu" and not weight.requires_grad


def _forward(module: nn.Linear, packed: Tensor, x: Tensor) -> Tensor:
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
