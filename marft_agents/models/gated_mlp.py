"""Gated feed-forward layers (SwiGLU, arXiv 2002.05202) with fewer activations saved for the backward pass.

For `down(act(gate(x)) * up(x))` autograd saves `gate(x)`, `act(gate(x))` and `up(x)`, the widest tensors of a layer.
Recomputing the middle one costs less than writing it to memory and reading it back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

PARTS = ("gate_proj", "up_proj", "down_proj", "act_fn")  # their names in transformers' Llama, Qwen, Mistral, Gemma


def keep_less(model: Any) -> int:
    """Make every gated feed-forward layer of a transformers model save only its two projections for the backward pass.

    A layer with the same part names may compute something else. Each layer is tested on probe inputs, and one whose
    output differs is left unchanged.

    Returns:
        Number of layers that were changed.
    """
    changed = 0
    for module in model.modules():
        if all(hasattr(module, part) for part in PARTS) and _is_plain(module):
            module.forward = partial(_forward, module)
            changed += 1
    return changed


@torch.no_grad()
def _is_plain(module: Any) -> bool:
    if not isinstance(module.gate_proj, nn.Linear):
        return False
    weight = module.gate_proj.weight
    probe = torch.linspace(-2, 2, 3 * weight.shape[1], dtype=weight.dtype, device=weight.device).view(1, 3, -1)
    sizes = (0.01, 1.0, 100.0, 1e4)  # clipping shows at one of these
    return all(torch.equal(module(size * probe), _forward(module, size * probe)) for size in sizes)


def _forward(module: Any, x: Tensor) -> Tensor:
    down: Tensor = module.down_proj(_Gated.apply(module.gate_proj(x), module.up_proj(x), module.act_fn))  # type: ignore[no-untyped-call]
    return down


class _Gated(torch.autograd.Function):
    """Elementwise product `act(gate) * up` that saves only its two inputs."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        """Return `act(gate) * up`, shape [..., n]."""
        ctx.save_for_backward(gate, up)
        ctx.act = act
        return act(gate) * up

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """Recompute the activation, and differentiate it with autograd."""
        gate, up = ctx.saved_tensors
        with torch.enable_grad():
            gate = gate.detach().requires_grad_()
            activated = ctx.act(gate)
            (of_gate,) = torch.autograd.grad(activated, gate, gradient * up)
        return of_gate, gradient * activated.detach(), None
