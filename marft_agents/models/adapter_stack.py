"""LoRA of rows with different adapters as a few large products, however many adapters there are.

The adapters of a base are stacked: N of rank r make A, [N r, in], and B, [N r, out]. A row x with adapter n adds

    ((x @ A.T) * mask[n]) @ B

to the output of its linear layer. The mask is alpha / r in the columns of adapter n and zero elsewhere. Layers that
get the same input (q, k and v; gate and up) share the first product. Where N r exceeds half the width of the input, as
in a prefill for many agents, the rows of each adapter are multiplied by that adapter alone, in one batched product.

PEFT owns the parameters. The stack is a copy, refreshed in place: its buffers keep their addresses, so a captured CUDA
graph stays valid. A pass takes the adapter of each row from a tensor and reads nothing back from the device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SAME_INPUT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))  # siblings that transformers calls on one input
WIDEST = 0.5  # share of the input's width: with more stacked ranks, products by adapter cost less


class AdapterStack:
    """Stacked copies of all LoRA adapters of a base.

    Args:
        model: Model with PEFT's linear LoRA layers, without dropout and bias. Their forward is replaced. Outside of
            `rows` and `runs` they follow PEFT's active adapter, with gradients.
        adapters: Name of each adapter -> PEFT's name of it. They are numbered in this order; N is the bare base.
    """

    def __init__(self, model: nn.Module, adapters: Mapping[str, str]) -> None:
        self._adapters = list(adapters)
        self._groups = [_Group(layers, list(adapters.values())) for layers in _by_input(model)]
        self._copies: list[Tensor] = []  # places of PEFT's parameters in the stack
        self._flat = torch.zeros(0)
        self._masks: dict[_Kind, Tensor] = {}
        self._refused: set[str] = set()
        self._now: _Pass | None = None
        for group in self._groups:
            for place, layer in enumerate(group.layers):
                layer.forward = partial(self._forward, layer, layer.forward, group, place)

    def number(self, adapter: str | None) -> int:
        """Return the number of an adapter; None is the bare base.

        Raises:
            FloatingPointError: It held a NaN or an infinite number at the last refresh.
        """
        if adapter in self._refused:
            raise FloatingPointError(
                f"adapter {adapter!r} holds numbers that are NaN or infinite, so it cannot sample: load a checkpoint "
                "from before, or lower its learning rate"
            )
        return len(self._adapters) if adapter is None else self._adapters.index(adapter)

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the adapters into the stack, in place.

        One with a NaN or an infinite number is left out, since 0 times infinity is no number: it would spoil the rows
        of all others. `number` refuses it.
        """
        sources = [source for group in self._groups for source in group.parameters]
        if not self._copies or self._flat.device != sources[0].device:
            self._allocate(sources[0].device)
        torch._foreach_copy_(self._copies, sources)
        self._refused = set()
        lowest, highest = self._flat.aminmax()  # NaN if there is one
        if not bool((highest - lowest).isfinite()):
            self._refuse()

    def _refuse(self) -> None:
        owners = [self._adapters[number] for group in self._groups for number in group.owners]
        broken = [not bool(copy.isfinite().all()) for copy in self._copies]
        self._refused = {owner for owner, bad in zip(owners, broken, strict=True) if bad}
        for owner, copy in zip(owners, self._copies, strict=True):
            if owner in self._refused:
                copy.zero_()

    def _allocate(self, device: torch.device) -> None:
        sizes = [group.size for group in self._groups]
        self._flat = torch.zeros(sum(sizes), device=device)
        parts = zip(self._groups, self._flat.split(sizes), strict=True)
        self._copies = [place for group, part in parts for place in group.lay_out(part)]
        self._masks = {group.kind: group.mask().to(device) for group in self._groups}

    def rows(self, numbers: Tensor) -> contextlib.AbstractContextManager[None]:
        """Use one adapter per row in a `with` block, without gradients; for a pass that may be captured.

        Args:
            numbers: Number of each row's adapter, int64, on the device; its shape broadcasts to the leading axes of
                the layers' inputs: [B, 1] for inputs [B, S, d].
        """
        return self._using(_Pass({kind: mask[numbers] for kind, mask in self._masks.items()}))

    def runs(self, numbers: Sequence[int], sizes: Sequence[int]) -> contextlib.AbstractContextManager[None]:
        """Use one adapter per run of rows in a `with` block, without gradients.

        Args:
            numbers: Number of each run's adapter, at most once each, not only the bare base.
            sizes: Rows of each run. They are tokens of a packed sequence, [1, S, d], or rows of a matrix, [S, d].
        """
        return self._using(_RunsPass(self._masks, len(self._adapters), numbers, sizes))

    @contextlib.contextmanager
    def _using(self, chosen: _Pass) -> Iterator[None]:
        before, self._now = self._now, chosen
        try:
            yield
        finally:
            self._now = before
            for group in self._groups:
                group.shared = None

    def _forward(
        self, layer: Any, plain: Callable[..., Tensor], group: _Group, place: int, x: Tensor, **given: Any
    ) -> Tensor:
        """Return the output of a LoRA layer, [..., out] for x [..., in]; `given` is for PEFT."""
        result: Tensor
        if self._now is not None:
            result = layer.base_layer(x)
            if group.shared is None or group.shared[0] is not x:
                group.shared = x, self._now.inner(group, x)
            self._now.add(group, place, group.shared[1], result)
            return result
        if layer.disable_adapters or layer.merged or given or len(layer.active_adapters) != 1 or x.dim() == 1:
            return plain(x, **given)
        name = layer.active_adapters[0]
        inner = group.trained(place, x, name)
        result = layer.base_layer(x.flatten(0, -2))  # a matrix: adding to a view in place would copy its gradient
        return _add_product(result, inner, layer.lora_B[name].weight.T).view(*x.shape[:-1], result.shape[-1])


_Kind = tuple[int, tuple[tuple[float, ...], ...]]  # rank, and the scale of each adapter in each layer


class _Group:
    """LoRA layers with the same input, and their part of the stack.

    Args:
        layers: PEFT's layers, T of them.
        names: PEFT's names of the N adapters.

    Attributes:
        rank: Largest rank r; smaller ones are padded with zeros.
        kind: What the mask depends on.
        parameters: PEFT's parameters, A and B of every layer and adapter.
        owners: Number of the adapter of each parameter.
        size: Numbers in the stack.
        inputs: A of all layers, float32 [T, N, r, in].
        outputs: B of each layer, float32 [N, r, out].
        shared: Last input of a pass, and the first product with it.
    """

    def __init__(self, layers: Sequence[Any], names: Sequence[str]) -> None:
        self.layers, self._names = layers, names
        self.rank: int = max(layer.r[name] for layer in layers for name in names)
        self.kind: _Kind = self.rank, tuple(tuple(layer.scaling[name] for name in names) for layer in layers)
        self.width = int(layers[0].in_features)
        self.parameters = [
            part[name].weight for layer in layers for name in names for part in (layer.lora_A, layer.lora_B)
        ]
        self.owners = [number for _ in layers for number in range(len(names)) for _ in range(2)]
        self._sizes = [len(layers) * self.width, *(layer.out_features for layer in layers)]
        self.size = self.columns * sum(self._sizes)
        self.inputs = torch.zeros(0)
        self.outputs: list[Tensor] = []
        self.shared: tuple[Tensor, Tensor] | None = None
        self._products = _Products()

    @property
    def columns(self) -> int:
        """Columns of one layer in the first product, N r."""
        return len(self._names) * self.rank

    def trained(self, place: int, x: Tensor, name: str) -> Tensor:
        """Return `alpha / r x @ A.T` of one layer and adapter, float32 [rows, r], with a graph to PEFT's parameters."""
        key = name, torch.is_grad_enabled()
        inner = self._products.take(place, x, key)
        if inner is None:
            inputs = [layer.lora_A[name].weight for layer in self.layers]
            together = inputs[0] if len(inputs) == 1 else torch.cat(inputs)
            rows = x.flatten(0, -2).to(together.dtype)
            products = _Scaled.apply(rows, together, self.layers[0].scaling[name])  # type: ignore[no-untyped-call]
            self._products = _Products(x, key, list(products.split([len(part) for part in inputs], dim=-1)))
            inner = self._products.take(place, x, key)
        assert inner is not None
        return inner

    def mask(self) -> Tensor:
        """Return the mask of each adapter, float32 [N + 1, T * N * r]; the last row, of the bare base, is zero."""
        scales = torch.tensor(self.kind[1])  # [T, N]
        own = torch.cat([torch.eye(len(self._names)), torch.zeros(1, len(self._names))])  # [N + 1, N]
        return (own[:, None, :] * scales)[..., None].expand(-1, -1, -1, self.rank).flatten(1)

    def lay_out(self, flat: Tensor) -> list[Tensor]:
        """Lay this part of the stack out in a flat buffer; return the places of `parameters` in it."""
        first, *rest = flat.split([self.columns * size for size in self._sizes])
        self.inputs = first.view(len(self.layers), len(self._names), self.rank, self.width)
        self.outputs = [part.view(len(self._names), self.rank, -1) for part in rest]
        places = []
        for inputs, outputs, layer in zip(self.inputs, self.outputs, self.layers, strict=True):
            for number, name in enumerate(self._names):
                places += [inputs[number, : layer.r[name]], outputs[number, : layer.r[name]].T]
        return places


class _Scaled(torch.autograd.Function):
    """Product `scale x @ A.T` in one operator; autograd would scale both products of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, scale: float) -> Tensor:
        """Return [rows, r] for x [rows, in] and weights [r, in]."""
        ctx.save_for_backward(x, weights)
        ctx.scale = scale
        return torch.addmm(x.new_empty(1), x, weights.T, beta=0, alpha=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None]:
        """Return the gradients of x and of the weights."""
        x, weights = ctx.saved_tensors
        gradient = gradient * ctx.scale
        return gradient @ weights if ctx.needs_input_grad[0] else None, gradient.T @ x, None


class _Products:
    """First products of layers with the same input under one adapter. Each is given once: weights may change later.

    Args:
        x: Input of these layers.
        key: Adapter, and whether there is a graph.
        parts: Product of each layer.
    """

    def __init__(self, x: Tensor | None = None, key: object = None, parts: Sequence[Tensor | None] = ()) -> None:
        self._x, self._key, self._parts = x, key, list(parts)

    def take(self, place: int, x: Tensor, key: object) -> Tensor | None:
        """Return the product of a layer; None if there is none with this input, or it was given before."""
        if self._x is not x or self._key != key:
            return None
        part, self._parts[place] = self._parts[place], None
        if not any(part is not None for part in self._parts):
            self._x = None
        return part


class _Pass:
    """Adapters of the rows of a pass, by masks over all stacked adapters.

    Args:
        masks: Kind of group -> mask of each row, [..., T * N * r].
    """

    def __init__(self, masks: Mapping[_Kind, Tensor]) -> None:
        self._masks = masks

    def inner(self, group: _Group, x: Tensor) -> Tensor:
        """Return `(x @ A.T) * mask`, float32 [..., T * N * r]."""
        return (x.float() @ group.inputs.flatten(0, 2).T).mul_(self._masks[group.kind])

    def add(self, group: _Group, place: int, inner: Tensor, result: Tensor) -> None:
        """Add `inner @ B` of one layer to its output [..., out], in place."""
        own = inner.flatten(0, -2)[:, place * group.columns : (place + 1) * group.columns]
        flat, outputs = result.view(-1, result.shape[-1]), group.outputs[place].flatten(0, 1)
        _add_product(flat, own, outputs)


class _RunsPass(_Pass):
    """Adapters of runs of rows: where the stack is wide, each run is multiplied by its own adapter.

    Args:
        masks: Kind of group -> mask of each adapter, [N + 1, T * N * r].
        bare: Number of the bare base, N.
        numbers: Adapter of each of the runs.
        sizes: Rows of each run.
    """

    def __init__(self, masks: Mapping[_Kind, Tensor], bare: int, numbers: Sequence[int], sizes: Sequence[int]) -> None:
        device = next(iter(masks.values())).device
        of_rows = torch.as_tensor(np.repeat(numbers, sizes), device=device)
        super().__init__({kind: mask[of_rows] for kind, mask in masks.items()})
        firsts = np.cumsum([0, *sizes])
        runs = [run for run in zip(numbers, firsts, sizes, strict=False) if run[0] != bare]
        longest = 1 + max(size for _, _, size in runs)  # the place of padding is what rows of the bare base read
        places = np.zeros((len(runs), longest), np.int64)
        back = np.full(firsts[-1], longest - 1)
        for k, (_, first, size) in enumerate(runs):
            places[k, :size] = first + np.arange(size)
            back[first : first + size] = k * longest + np.arange(size)
        real = np.arange(longest) < np.asarray([size for _, _, size in runs])[:, None]
        self._used = torch.as_tensor([number for number, _, _ in runs], device=device)
        self._places, self._back = torch.as_tensor(places, device=device), torch.as_tensor(back, device=device)
        self._real = torch.as_tensor(real, device=device)[..., None]

    def inner(self, group: _Group, x: Tensor) -> Tensor:
        """Return the first product: by masks, or by runs [R, longest, T * r]."""
        if not _is_wide(group):
            return super().inner(group, x)
        rows = x.flatten(0, -2).index_select(0, self._places.flatten()).view(*self._places.shape, -1)
        inputs = group.inputs[:, self._used].transpose(0, 1).flatten(1, 2)  # [R, T * r, in]
        scales = torch.tensor(group.kind[1], device=x.device)[:, self._used]  # [T, R]
        scales = scales.T.repeat_interleave(group.rank, dim=1)[:, None]  # [R, 1, T * r]
        return torch.bmm(rows.float(), inputs.transpose(1, 2)) * (scales * self._real)

    def add(self, group: _Group, place: int, inner: Tensor, result: Tensor) -> None:
        """Add the second product of one layer to its output [..., out], in place."""
        if not _is_wide(group):
            super().add(group, place, inner, result)
            return
        own = inner[..., place * group.rank : (place + 1) * group.rank]
        added = torch.bmm(own, group.outputs[place][self._used]).flatten(0, 1)
        result.view(-1, result.shape[-1]).add_(added.index_select(0, self._back))


def _add_product(result: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Add `left @ right`, both float32, to `result` in place, and return it; coarser results are rounded once."""
    if result.dtype == torch.float32:
        return result.addmm_(left, right)
    return result.add_(left @ right)


def _is_wide(group: _Group) -> bool:
    return group.columns > WIDEST * group.width


def _by_input(model: nn.Module) -> list[list[Any]]:
    """Return PEFT's linear LoRA layers; those that share an input, and their scales, stand together."""
    from peft.tuners.lora import Linear

    found: dict[tuple[object, ...], list[Any]] = {}
    for path, module in model.named_modules():
        if isinstance(module, Linear):
            parent, _, name = path.rpartition(".")
            siblings = next((names for names in SAME_INPUT if name in names), name)
            found.setdefault((parent, siblings, *module.scaling.items()), []).append(module)
    return list(found.values())
