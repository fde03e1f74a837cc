"""Sharding of the frozen bases over the ranks of a data-parallel learner, by FSDP2 (`torch.distributed.fsdp`).

Each rank keeps 1 / N of the frozen weights of every decoder layer. A forward or backward pass gathers one layer after
the other from all ranks and frees it again. Embeddings, final norm and language-model head stay whole on every rank:
the head is called in chunks, whose number differs between ranks. Adapters stay whole, too, and are reduced as ever.

All ranks must gather the same layers in the same order, so they run the same number of passes (`Ranks.even`). Outside
of updates only rank 0 runs a model. It announces each of these passes, and the others join it (`distributed.follow`).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from torch import distributed, nn

from marft_agents.learning.ranks import Ranks
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.model_error import ModelError
from marft_agents.setting_fields import SettingsError


def shard(bases: Sequence[AdaptedBase], ranks: Ranks) -> None:
    """Shard the decoder layers of bases in host memory over the ranks; move the shards and all else to their device.

    Args:
        bases: The same bases in the same order on every rank; changed in place. Their `device` is that of this rank.
        ranks: Ranks of the default process group; they run all passes together from now on.

    Raises:
        ModelError: The layers of a base are not known.
        SettingsError: The installed torch cannot leave parameters out of sharding.
    """
    check_fsdp()
    from torch.distributed.fsdp import fully_shard

    for base in bases:
        mesh = distributed.init_device_mesh(base.device.type, (ranks.count,))
        adapters: set[nn.Parameter] = set()  # they stay whole, and their gradients are reduced apart
        for adapter in base.adapters:
            adapters.update(base.parameters(adapter).values())
        layers = _layers(base)
        for layer in layers:  # one at a time goes to the device
            fully_shard(layer, mesh=mesh, ignored_params=adapters)
        whole = set(base.trunk.parameters())  # but for the layers: embeddings and the final norm
        for layer in layers:
            whole.difference_update(layer.parameters())
        fully_shard(base.trunk, mesh=mesh, ignored_params=adapters | whole)  # the root, which shards nothing itself
        base.peft.to(base.device)
    ranks.in_step = True


def check_fsdp() -> None:
    """Raise SettingsError unless the installed torch has what sharding needs."""
    from torch.distributed.fsdp import fully_shard

    if "ignored_params" not in inspect.signature(fully_shard).parameters:
        raise SettingsError(f"shard_base needs torch 2.7 or newer, found {torch.__version__}")


def _layers(base: AdaptedBase) -> list[nn.Module]:
    """Return the decoder layers of a base: transformers lists their class among those that are not split."""
    names = set(base.trunk._no_split_modules or ())
    found = [module for module in base.trunk.modules() if type(module).__name__ in names]
    if not found:
        raise ModelError(f"model {base.name!r}: transformers does not tell its decoder layers, so it cannot be sharded")
    return found
