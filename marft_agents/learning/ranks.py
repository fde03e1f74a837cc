"""Ranks of a data-parallel learner: processes that share the passes of an update and take the same steps.

Every rank holds the whole batch and all weights. It computes the terms of its own actions, normalised by the counts of
the whole mini-batch. So gradients are sums over ranks, and advantages, averages and stops do not depend on the split.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed, nn

from marft_agents.learning.divergence_error import DivergenceError

T = TypeVar("T")


class Ranks:
    """A learner that is alone: one rank, for which every reduction is the identity.

    Attributes:
        rank: Number of this process, from 0. Rank 0 plays, decides and writes.
        count: Number of processes.
        in_step: True if all ranks must run the same number of passes, since each holds shards of the bases.
    """

    rank: int = 0
    count: int = 1
    in_step: bool = False

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the ranks."""
        self.meet()
        self._add_up(tensor)

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in order."""
        self.meet()
        return self._gather(value)

    def broadcast(self, value: T) -> T:
        """Return the value of rank 0."""
        self.meet()
        return self._broadcast(value)

    # ------------------------------------------------------------------ out of memory

    def meet(self) -> None:
        """Wait for all ranks; every reduction begins with it, so the ranks may stand at different ones.

        Raises:
            OtherRankOutOfMemoryError: Another rank called `out_of_memory` instead of a reduction.
        """
        if self._any(False):
            raise OtherRankOutOfMemoryError("another rank is out of memory")

    def out_of_memory(self) -> None:
        """Tell the other ranks, at their next reduction, that this one left its pass for lack of memory."""
        self._any(True)

    # ------------------------------------------------------------------ of the backend

    def _add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the ranks."""

    def _gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in order."""
        return [value]

    def _broadcast(self, value: T) -> T:
        """Return the value of rank 0."""
        return value

    def _any(self, flag: bool) -> bool:
        """Return True if the flag of some rank is set."""
        return flag

    # ------------------------------------------------------------------ made of these

    def own(self, costs: Sequence[int]) -> slice:
        """Return which of some items this rank computes: neighbours, with about an equal share of the costs.

        Args:
            costs: Cost of each item, > 0.
        """
        ends = np.cumsum(costs, dtype=np.int64)  # of each item, on a line that all ranks cut into equal shares
        # an item belongs to the rank in whose share its middle lies
        owners = (2 * ends - np.asarray(costs, np.int64)) * self.count // (2 * sum(costs) or 1)
        first, last = np.searchsorted(owners, [self.rank, self.rank + 1])
        return slice(int(first), int(last))

    def even(self, passes: list[list[int]]) -> list[list[int]]:
        """Return this rank's passes; where all must run as many, with empty ones after them.

        Args:
            passes: Numbers of the items in each pass.
        """
        most = max(self.gather(len(passes))) if self.in_step else 0
        return passes + [[] for _ in range(most - len(passes))]

    def total(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum of an array over the ranks; ranks that do not know an entry have 0 there."""
        tensor = torch.from_numpy(numbers.copy())
        self.add_up(tensor)
        found: npt.NDArray[Any] = tensor.numpy()
        return found

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace the gradient of each parameter by its sum over the ranks; it stays None where no rank has one."""
        if self.count == 1:
            return
        members = list(parameters)
        parts, has_gradient = [], []
        for parameter in members:
            parts.append(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
            has_gradient.append(float(parameter.grad is not None))
        known = torch.tensor(has_gradient, device=parts[0].device)
        flat = torch.cat([known, *(part.flatten() for part in parts)])  # one reduction for all
        self.add_up(flat)
        counts = flat[: len(members)].tolist()
        sums = flat[len(members) :].split([p.numel() for p in members])
        for parameter, has, gradient in zip(members, counts, sums, strict=True):
            parameter.grad = gradient.view_as(parameter) if has else None

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Raise a DivergenceError of one rank on all of them, at the end of a `with` block without reductions."""
        error = None
        try:
            yield
        except DivergenceError as found:
            error = found
        for found_error in self.gather(error):
            if found_error is not None:
                raise found_error


class OtherRankOutOfMemoryError(torch.OutOfMemoryError):
    """Another rank ran out of memory; this one leaves its pass, too."""


class LostRankError(RuntimeError):
    """Another rank does not answer, since it died or ended."""


def is_lost(error: BaseException) -> bool:
    """Return True for an error that a rank gets because another one died.

    Passes of sharded layers raise the errors of the backend. Those of gloo are told by their text alone.
    """
    in_gloo = isinstance(error, RuntimeError) and "/gloo/" in str(error)
    return in_gloo or isinstance(error, LostRankError | distributed.DistError)


class TorchRanks(Ranks):
    """Ranks of the default process group of torch.distributed, which must be initialised."""

    def __init__(self) -> None:
        self.rank, self.count = distributed.get_rank(), distributed.get_world_size()

    def _add_up(self, tensor: Tensor) -> None:
        with _answered():
            distributed.all_reduce(tensor)

    def _gather(self, value: T) -> list[T]:
        values: list[T | None] = [None] * self.count
        with _answered():
            distributed.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def _broadcast(self, value: T) -> T:
        values = [value]
        with _answered():
            distributed.broadcast_object_list(values)
        return values[0]

    def _any(self, flag: bool) -> bool:
        flags = torch.tensor([int(flag)])
        with _answered():
            distributed.all_reduce(flags, distributed.ReduceOp.MAX)
        return bool(flags.item())


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # each backend has its own words for it
        raise LostRankError(f"another rank does not answer: {error}") from error


ALONE = Ranks()
