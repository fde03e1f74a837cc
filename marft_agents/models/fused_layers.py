"""Norms and rotary embeddings of a transformer as few large operators.

On a GPU a small operator costs its launch, and transformers writes these layers in many. Each replacement is first
compared with the model's own on probe inputs; what differs is left as it is.

- RMSNorm (arXiv 1910.07467) is `torch.nn.functional.rms_norm`, one kernel on CUDA.
- Rotary embeddings (arXiv 2104.09864) take three operators for queries and three for keys instead of ten.

On a CPU both are faster, too, since they read and write memory fewer times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ROTARY = "apply_rotary_pos_emb"  # name of the function in every model of transformers that has one
EPSILONS = ("variance_epsilon", "eps")  # names of the small number in its norms


def fuse(model: Any) -> Callable[[], None]:
    """Replace the norms and rotary embeddings of a model where the fused ones compute the same.

    Returns:
        Function that undoes it.
    """
    changed = []
    for module in model.modules():
        forward = _norm_of(module) or _rotating(module)
        if forward is not None:
            module.forward = forward
            changed.append(module)

    def undo() -> None:
        for module in changed:
            del module.forward  # that of its class is seen again

    return undo


def _agree(found: Tensor, wanted: Tensor) -> bool:
    """Return True if two results are equal to the rounding of their dtype."""
    return torch.allclose(found.float(), wanted.float(), rtol=8 * torch.finfo(wanted.dtype).eps, atol=1e-6)


# ------------------------------------------------------------------ norms


@torch.no_grad()
def _norm_of(module: Any) -> Callable[[Tensor], Tensor] | None:
    """Return the fused forward of an RMSNorm; None for any other module."""
    epsilon = next((getattr(module, name) for name in EPSILONS if hasattr(module, name)), None)
    weight = getattr(module, "weight", None)
    if not type(module).__name__.endswith("RMSNorm") or epsilon is None or weight is None or "forward" in vars(module):
        return None
    fused = partial(_norm, module, epsilon)
    probe = torch.linspace(-2, 3, 3 * len(weight), dtype=weight.dtype, device=weight.device).view(1, 3, -1)
    sizes = (1e-3, 1.0, 100.0)  # the small number shows at the first
    return fused if all(_agree(fused(size * probe), module(size * probe)) for size in sizes) else None


def _norm(module: Any, epsilon: float, x: Tensor) -> Tensor:
    frozen = not module.weight.requires_grad
    if x.device.type == "cpu" and frozen and x.requires_grad and torch.is_grad_enabled():
        normed: Tensor = _Norm.apply(x, module.weight, epsilon)  # type: ignore[no-untyped-call]
        return normed
    return torch.nn.functional.rms_norm(x, module.weight.shape, module.weight, epsilon)


class _Norm(torch.autograd.Function):
    """RMSNorm with a frozen weight that saves its input only; CUDA has such a kernel, a CPU none.

    With r = (mean(x^2) + epsilon)^(-1/2) and h = weight * gradient, the gradient of x is

        r (h - x r^2 mean(x h))
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Return `x r weight`, shape [..., d]."""
        ctx.save_for_backward(x, weight)
        ctx.epsilon = epsilon
        return torch.nn.functional.rms_norm(x, weight.shape, weight, epsilon)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of x."""
        x, weight = ctx.saved_tensors
        wide = x.dtype if x.dtype.itemsize > 4 else torch.float32
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide)
        rate = torch.addcmul(_scalar(ctx.epsilon, wide), size, size, value=1 / x.shape[-1]).rsqrt_()
        scaled = (gradient * weight).to(wide)
        along = (x * scaled).sum(-1, keepdim=True).mul_(rate.pow(3))
        return scaled.mul_(rate).addcmul_(x, along, value=-1 / x.shape[-1]).to(x.dtype), None, None


@functools.cache
def _scalar(number: float, dtype: torch.dtype) -> Tensor:
    return torch.tensor(number, dtype=dtype)


# ------------------------------------------------------------------ rotary embeddings


def _rotating(module: Any) -> MethodType | None:
    """Return the forward of an attention layer with the fused rotation in it; None where it has another, or none."""
    forward = type(module).forward
    if "forward" in vars(module) or not isinstance(forward, FunctionType) or ROTARY not in forward.__code__.co_names:
        return None
    theirs = forward.__globals__.get(ROTARY)
    if theirs is None or not _rotates_halves(theirs):
        return None
    # the same code with one other global: all else that the layer does stays its own
    names = {**forward.__globals__, ROTARY: rotated}
    own = FunctionType(forward.__code__, names, forward.__name__, forward.__defaults__, forward.__closure__)
    own.__kwdefaults__ = forward.__kwdefaults__
    return MethodType(own, module)


def _rotates_halves(theirs: Callable[..., tuple[Tensor, Tensor]]) -> bool:
    generator = torch.Generator().manual_seed(0)
    query, key, cos, sin = (torch.randn(2, heads, 3, 8, generator=generator) for heads in (4, 2, 1, 1))
    try:
        wanted = theirs(query, key, cos[:, 0], sin[:, 0])
    except (TypeError, ValueError, IndexError, RuntimeError):  # it takes other arguments
        return False
    found = rotated(query, key, cos[:, 0], sin[:, 0])
    return all(a.shape == b.shape and _agree(a, b) for a, b in zip(found, wanted, strict=True))


def rotated(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys by their positions, as transformers' function of this signature.

    Args:
        query: Queries, [B, H, S, d].
        key: Keys, [B, H_kv, S, d].
        cos: Cosines, [B, S, d].
        sin: Sines, [B, S, d].
        unsqueeze_dim: Axis of the heads.
    """
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad):
        return _Rotation.apply(query, cos, sin), _Rotation.apply(key, cos, sin)  # type: ignore[no-untyped-call]
    return _rotate(query, cos, sin), _rotate(key, cos, sin)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    first, second = x.chunk(2, dim=-1)
    return first, second


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return `x cos + (-x2, x1) sin` for x = (x1, x2)."""
    out = x * cos
    (x1, x2), (sin1, sin2), (out1, out2) = _halves(x), _halves(sin), _halves(out)
    out1.addcmul_(x2, sin1, value=-1)
    out2.addcmul_(x1, sin2)
    return out


class _Rotation(torch.autograd.Function):
    """Rotation by fixed angles, which saves no activations for its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the rotated x, [B, H, S, d]."""
        ctx.save_for_backward(cos, sin)
        return _rotate(x, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of x: `gradient cos + (g2 sin2, -g1 sin1)` for gradient = (g1, g2)."""
        cos, sin = ctx.saved_tensors
        out = gradient * cos
        (g1, g2), (sin1, sin2), (out1, out2) = _halves(gradient), _halves(sin), _halves(out)
        out1.addcmul_(g2, sin2)
        out2.addcmul_(g1, sin1, value=-1)
        return out, None, None
