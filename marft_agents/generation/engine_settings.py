"""Settings of the decoding engine: which one, how many rows, how much memory. Chosen once, from total memory.

Free memory differs between two starts of a run. Sizes decide the batches, and so the last digits of log-probs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from marft_agents.setting_fields import SettingsError, check_knobs, knob

if TYPE_CHECKING:  # settings need no torch
    import torch

EngineName = Literal["auto", "eager", "graph"]

ROWS = {"cpu": 128, "cuda": 256}  # largest batch by default: a product of so many rows keeps the device busy
MEMORY = {"cpu": 0.5, "cuda": 0.25}  # largest share of total memory by default; a CPU takes it as it is needed
PROMPTS = 0.25  # share of the KV cache for prompts of earlier turns
GIB = 1 << 30


@dataclass(frozen=True)
class EngineSettings:
    """Engine that samples in this process, and its sizes; `resolved` chooses those that are 0."""

    engine: EngineName = knob(
        "auto", "run decoding steps one operator after the other (eager), as CUDA graphs (graph), or as fits the device"
    )
    max_batch: int = knob(
        0,
        "actions generated at once (memory and speed, and the last digits of log-probs); 0: 128 on a CPU, 256 on CUDA",
        lambda value: value >= 0,
        ">= 0",
    )
    kv_cache_gib: float = knob(
        0.0,
        "GiB for keys and values of a base model, a quarter of it for prompts of earlier turns; 0: what max_batch rows "
        "need, at most half the memory of the machine or a quarter of that of the GPU",
        lambda value: value >= 0,
        ">= 0",
    )

    def __post_init__(self) -> None:
        check_knobs(self)

    @property
    def rows_bytes(self) -> int | None:
        """Bytes for keys and values of rows; None: no limit."""
        return int(self.kv_cache_gib * GIB * (1 - PROMPTS)) or None

    @property
    def prompts_bytes(self) -> int:
        """Bytes for keys and values of prompts of earlier turns."""
        return int(self.kv_cache_gib * GIB * PROMPTS) or GIB

    def resolved(self, device: torch.device, models: Iterable[tuple[Any, torch.dtype]], tokens: int) -> EngineSettings:
        """Return the settings with all sizes, and refuse those that cannot be.

        Args:
            device: Device of the bases.
            models: Configuration and dtype of each base.
            tokens: Longest prompt and action together.

        Raises:
            SettingsError: Captured steps without CUDA, a KV cache that is larger than the memory, or one that does not
                hold a row.
        """
        from marft_agents.generation.step_engine import BLOCK

        check_engine(self.engine, device)
        total = total_memory(device)
        # GiB of a row of the largest model; a captured block may write some tokens behind its last one.
        row = (tokens + BLOCK) * max((bytes_of_token(config, dtype) for config, dtype in models), default=1) / GIB
        rows = self.max_batch or ROWS.get(device.type, ROWS["cpu"])
        share = MEMORY.get(device.type, MEMORY["cpu"])
        size = self.kv_cache_gib or min(max(rows * row / (1 - PROMPTS), 1.0), share * total / GIB)
        if size * GIB > total:
            raise SettingsError(f"kv_cache_gib = {size:g}: {device} has {total / GIB:.1f} GiB in all, wanted less")
        if size * (1 - PROMPTS) < row:
            raise SettingsError(
                f"kv_cache_gib = {size:g}: three quarters of it hold no row of {tokens} tokens, which takes {row:.2g} "
                "GiB: raise it, or lower context_window"
            )
        return replace(self, max_batch=rows, kv_cache_gib=round(size, 3))


def check_engine(engine: str, device: torch.device | None) -> None:
    """Refuse an unknown engine, and captured steps on a device other than CUDA.

    Args:
        engine: Name of the engine.
        device: Device of a base; None checks the name alone.

    Raises:
        SettingsError: See above.
    """
    if engine not in get_args(EngineName):
        raise SettingsError(f"engine = {engine!r}, wanted {', '.join(get_args(EngineName))}")
    if engine == "graph" and device is not None and device.type != "cuda":
        raise SettingsError(f"engine = 'graph' captures CUDA graphs, found device {device}: use auto or eager")


def total_memory(device: torch.device) -> int:
    """Return the bytes of memory of a device that this process may have, in use or not.

    On CUDA `torch.cuda.set_per_process_memory_fraction` says how much of it that is.
    """
    if device.type == "cuda":
        import torch

        total = torch.cuda.get_device_properties(device).total_memory
        return int(total * torch.cuda.get_per_process_memory_fraction(device))
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def bytes_of_token(config: Any, dtype: torch.dtype) -> int:
    """Return the bytes of the keys and values of a token in all layers of a model."""
    config = config.get_text_config()
    # the layers of a model may differ, as in Gemma 4; older versions of transformers do not know such models
    layers = getattr(config, "per_layer_config", None) or [config] * config.num_hidden_layers
    total = 0
    for layer in layers:
        heads = layer.num_attention_heads
        size = getattr(layer, "head_dim", None) or layer.hidden_size // heads
        # keys and values; several query heads may share one of each
        total += 2 * (getattr(layer, "num_key_value_heads", None) or heads) * size
    return int(total * dtype.itemsize)
