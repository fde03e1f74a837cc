"""Engines that run decoding steps: eagerly, or captured as CUDA graphs.

A captured step costs one launch instead of a thousand. Each shape is captured when it first comes up, at most
`MOST_GRAPHS` of them in one memory pool, and compared with an eager step. If they differ, or the capture fails, steps
are run eagerly from then on, and a warning says why.
"""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from marft_agents.generation.decode_step import StepBuffers, StepShape, decode_step
from marft_agents.generation.drafting import LONGEST_DRAFT
from marft_agents.generation.engine_settings import EngineName, check_engine
from marft_agents.generation.kv_cache import KVCache
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.adapted_base import AdaptedBase

MOST_GRAPHS = 16
BLOCK = 8  # captured steps between two writes of the host; their tokens are read one block later
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.05}  # mean difference of log-probs between two ways to compute them


class Captured(Protocol):
    """Captured steps of one shape."""

    def replay(self) -> None:
        """Run the step again on the same buffers."""


Capture = Callable[[Callable[[], Tensor]], tuple[Captured, Tensor]]


class CudaGraphs:
    """Captures steps as CUDA graphs, which share their memory."""

    def __init__(self) -> None:
        self._pool: Any = None

    def __call__(self, step: Callable[[], Tensor]) -> tuple[Captured, Tensor]:
        """Return the graph of a step, and its output, which each replay overwrites.

        Args:
            step: Runs the step. It is run twice before, since libraries allocate memory at first.
        """
        # On a side stream, as CUDA graphs require of warm-up runs.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                step()
        torch.cuda.current_stream().wait_stream(side)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = step()
        return graph, output


class StepEngine:
    """KV cache, buffers of steps and captured steps that all generations of a base share.

    Args:
        base: The base model and its adapters.
        max_rows: Largest number of rows in a batch.
        tokens: Tokens of rows for which the KV cache has memory; None for any number.
        prompts: Tokens of kept prompts for which it has memory.
        engine: "graph" captures steps, "eager" does not, "auto" captures them on CUDA.
        capture: Captures a step; None takes CUDA graphs.

    Attributes:
        fallback: Why captured steps are not used any more; None as long as they are.

    Raises:
        SettingsError: No such engine, or captured steps without CUDA.
    """

    def __init__(
        self,
        base: AdaptedBase,
        *,
        max_rows: int = 128,
        tokens: int | None = None,
        prompts: int = 0,
        engine: EngineName = "auto",
        capture: Capture | None = None,
    ) -> None:
        check_engine(engine, base.device if capture is None else None)
        self.base, self.max_rows = base, max_rows
        self.captures = capture is not None or (base.device.type == "cuda" and engine != "eager")
        self.fallback: str | None = None
        self.cache = KVCache(
            base.device,
            tokens=tokens,
            prompts=prompts,
            at_once=self.captures,
            bucket=in_buckets if self.captures else None,
        )
        self.lock = threading.Lock()  # of the generation that uses the engine
        self.room = BLOCK if self.captures else LONGEST_DRAFT  # tokens of a row beyond its longest action
        self._capture = capture or CudaGraphs()
        self._buffers: dict[SamplingParams, StepBuffers] = {}
        self._adapters_checked = False
        self._graphs: dict[tuple[SamplingParams, StepShape], Captured] = {}

    def block(self, sampling: SamplingParams) -> int:
        """Return the number of steps in a block; with more than one, a block is read after the next has begun.

        Top-p alone keeps a number of tokens that only the device knows, so each of its steps is read at once.
        """
        return BLOCK if self.captures and not (sampling.restricts_support and not sampling.top_k) else 1

    def limits(self, sampling: SamplingParams) -> str | None:
        """Return what captured steps leave out under some sampling parameters; None if steps are not captured."""
        if not self.captures:
            return None
        if self.block(sampling) == 1:
            return (
                f"{self.base.name}: steps under top_p = {sampling.top_p:g} without top_k are not captured, since only "
                "the device knows how many tokens are kept: generation is slower than with a top_k"
            )
        return f"{self.base.name}: captured steps guess no tokens (prompt lookup); --engine eager does"

    def buffers(self, sampling: SamplingParams) -> StepBuffers:
        """Return the inputs and outputs of steps under some sampling parameters."""
        sampling = _endless(sampling)
        if sampling not in self._buffers:
            self._buffers[sampling] = StepBuffers(
                self.base.device,
                rows=self.max_rows,
                new=1 + LONGEST_DRAFT,
                steps=self.block(sampling),
                kept=sampling.top_k,
            )
        return self._buffers[sampling]

    def shape(self, *, new: int, depth: int) -> StepShape:
        """Return the shape of a step of the rows in the KV cache.

        Args:
            new: Tokens of each row.
            depth: Visible tokens of a row, without a shared prefix.
        """
        cache, members = self.cache, self.cache.members()
        rows, largest, prefix = len(cache), max(map(len, members), default=0), max(cache.shared, default=0)
        families = len(members) if prefix else 0
        if self.captures:  # few shapes, and so few graphs
            rows = min(self.max_rows, cache.most_rows, in_buckets(rows))
            largest = min(rows, in_buckets(largest))
            depth, prefix = min(cache.layout.room, in_buckets(depth)), cache.layout.common if families else 0
            families = cache.layout.families if families else 0
        return StepShape(rows, new, depth, families, largest if families else 0, prefix, cache.layout)

    def run(self, sampling: SamplingParams, shape: StepShape, steps: int) -> None:
        """Run a block of steps of one shape, after its inputs were written."""
        sampling = _endless(sampling)
        graph = None
        if self.captures and self.block(sampling) > 1:
            graph = self._graph(sampling, shape)
        for _ in range(steps):
            if graph is None:
                self._step(sampling, shape)
            else:
                graph.replay()

    def _step(self, sampling: SamplingParams, shape: StepShape) -> Tensor:
        return decode_step(self.base, sampling, self.cache, self.buffers(sampling), shape)

    def _graph(self, sampling: SamplingParams, shape: StepShape) -> Captured | None:
        """Return the captured step of a shape; None if it has to be run eagerly."""
        if not self._adapters_checked:
            check_adapters(self.base)
            self._adapters_checked = True
        if self.fallback is None and (sampling, shape) not in self._graphs and len(self._graphs) < MOST_GRAPHS:
            try:
                self._graphs[sampling, shape] = self._captured(sampling, shape)
            except Exception as error:
                self._fall_back(f"{type(error).__name__}: {error}")
        return self._graphs.get((sampling, shape))

    def _captured(self, sampling: SamplingParams, shape: StepShape) -> Captured:
        """Capture a step and compare its first replay with an eager step; the buffers stay as they were.

        Raises:
            ArithmeticError: Their log-probs differ.
        """
        buffers = self.buffers(sampling)
        # A step moves these on. It also writes keys and outputs, but the next run of the same step writes them again.
        moved = buffers.tokens, buffers.positions, buffers.step
        before = [tensor.clone() for tensor in moved]

        def restore() -> None:
            for tensor, value in zip(moved, before, strict=True):
                tensor.copy_(value)

        try:
            count = len(self.cache) * shape.new  # rows behind these are padding
            wanted = self._step(sampling, shape)[:count].float().log_softmax(-1)
            restore()
            graph, output = self._capture(lambda: self._step(sampling, shape))
            restore()
            graph.replay()
            found = output[:count].float().log_softmax(-1)
        finally:
            restore()
        check_close(f"a captured step of {shape.rows} rows", found, wanted, self.base.dtype)
        return graph

    def _fall_back(self, reason: str) -> None:
        self.fallback = reason
        self._graphs.clear()
        warnings.warn(
            f"captured decoding steps are not used for {self.base.name!r}, generation is slower: {reason}; "
            "--engine eager does not try them",
            RuntimeWarning,
            stacklevel=2,
        )


@functools.cache
def _endless(sampling: SamplingParams) -> SamplingParams:
    """Return sampling parameters without their limit, which is the host's: steps do not depend on it."""
    return replace(sampling, max_new_tokens=1)


def check_close(what: str, found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    """Refuse log-probs that differ by more than the tolerance of a dtype on average.

    Raises:
        ArithmeticError: They do, or some are NaN.
    """
    tolerance = TOLERANCE.get(dtype, TOLERANCE[torch.bfloat16])
    difference = (found - wanted).abs().mean().item()
    if not difference <= tolerance:  # which NaN is not either
        raise ArithmeticError(f"log-probs of {what} differ by {difference:.2g} on average, wanted {tolerance} at most")


@torch.no_grad()
def check_adapters(base: AdaptedBase) -> None:
    """Refuse a base whose stacked adapters compute something else than PEFT's.

    Raises:
        ArithmeticError: The log-probs of a few tokens under all adapters differ.
    """
    # Six tokens spread over the vocabulary, [1, 6]: enough to tell adapters apart.
    probe = 37 * torch.arange(1, 7, device=base.device)[None] % base.peft.config.get_text_config().vocab_size
    numbers = torch.tensor([[base.adapter_number(name)] for name in base.adapters], device=base.device)
    with base.adapters_of_rows(numbers):
        found = base.head(base.trunk(input_ids=probe.expand(len(numbers), -1)).last_hidden_state)
    for name, logits in zip(base.adapters, found, strict=True):
        with base.active_adapter(name):
            wanted = base.head(base.trunk(input_ids=probe).last_hidden_state[0])
        difference = logits.float().log_softmax(-1), wanted.float().log_softmax(-1)
        check_close(f"the stacked adapter {name!r} and of PEFT", *difference, base.dtype)


def in_buckets(length: int) -> int:
    """Round a positive number up to a power of two or one and a half times that: 1, 2, 3, 4, 6, 8, 12, 16, ..."""
    # The largest power of two below the length.
    power = 1 << max(0, math.ceil(math.log2(length)) - 1) if length > 1 else 1
    return next(size for size in (power, power * 3 // 2, 2 * power) if size >= length)
