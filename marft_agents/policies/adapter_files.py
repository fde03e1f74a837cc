"""LoRA adapters on disk in PEFT format, one folder per agent with a name valid on any file system; and as bytes."""

from __future__ import annotations

import hashlib
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from marft_agents.models.pretrained import unlock_weights
from marft_agents.policies.language_model import LanguageModelTeam, Seat

PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def folder_names(agents: Sequence[str]) -> dict[str, str]:
    """Return a folder name for each agent, valid on any file system; plain ids are kept.

    No two names differ only in upper and lower case, since some file systems treat such names as equal.

    Examples:
        >>> folder_names(["reasoner_0", "a/b"])
        {'reasoner_0': 'reasoner_0', 'a/b': 'a_b-c14cddc0'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for agent in agents:
        name = agent
        if not PLAIN_ID.fullmatch(agent) or name.lower() in taken:
            name = f"{UNSAFE.sub('_', agent)[:80] or 'agent'}-{hashlib.sha256(agent.encode()).hexdigest()[:8]}"
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        names[agent] = name
    return names


def save_adapter(seat: Seat, folder: Path) -> None:
    """Save one adapter so that `PeftModel.from_pretrained(base, folder)` loads it."""
    name = seat.base.peft_name(str(seat.adapter))
    # PEFT renders a model card beside the folder that is kept, which takes five times as long as saving the adapter.
    seat.base.peft.create_or_update_model_card = _no_card
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".adapter-") as scratch:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PEFT cannot look up the vocabulary of a base without a hub id
            seat.base.peft.save_pretrained(scratch, selected_adapters=[name], save_embedding_layers=False)
        unlock_weights(Path(scratch))
        Path(scratch, name).rename(folder)


def _no_card(folder: str) -> None:
    """Write no model card."""


def pack_adapters(team: LanguageModelTeam) -> dict[str, bytes]:
    """Return the weights of all trained policies by policy, each as the bytes of a safetensors file."""
    from safetensors.torch import save

    return {
        policy: save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
        for policy, tensors in _tensors(team).items()
    }


@torch.no_grad()
def unpack_adapters(team: LanguageModelTeam, packed: Mapping[str, bytes]) -> None:
    """Copy weights from `pack_adapters` into the adapters of a team of the same policies and shapes.

    Raises:
        ValueError: The policies, or the names of their tensors, are others.
    """
    from safetensors.torch import load

    found = {policy: load(content) for policy, content in packed.items()}
    wanted = _tensors(team)
    names = [{policy: sorted(tensors) for policy, tensors in side.items()} for side in (found, wanted)]
    if names[0] != names[1]:
        raise ValueError(f"adapters of policies {', '.join(found)} do not fit a team of {', '.join(wanted)}")
    for policy, tensors in wanted.items():
        for name, tensor in tensors.items():
            tensor.copy_(found[policy][name])


def _tensors(team: LanguageModelTeam) -> dict[str, dict[str, torch.nn.Parameter]]:
    """Return the weights of each policy by name, without PEFT's number of the adapter on its base."""
    found = {}
    for policy, (agent, *_) in team.policies.items():
        base = team.seat(agent).base
        number = f".{base.peft_name(policy)}."
        found[policy] = {name.replace(number, "."): tensor for name, tensor in base.parameters(policy).items()}
    return found
