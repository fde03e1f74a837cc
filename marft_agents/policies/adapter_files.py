"""LoRA adapters on disk in PEFT format, one folder per agent with a name valid on any file system; and as bytes."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.pretrained import unlock_weights
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent

WEIGHTS_FILE = "adapter_model.safetensors"  # in the folder of each adapter
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


def save_adapter(local: LocalAgent, folder: Path) -> None:
    """Save one adapter so that `PeftModel.from_pretrained(base, folder)` loads it."""
    name = local.base.peft_name(str(local.adapter))
    # PEFT renders a model card beside the folder that is kept, which takes five times as long as saving the adapter.
    local.base.peft.create_or_update_model_card = _no_card
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".adapter-") as scratch:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PEFT cannot look up the vocabulary of a base without a hub id
            local.base.peft.save_pretrained(scratch, selected_adapters=[name], save_embedding_layers=False)
        if local.base.trunk_names is not None:
            _fit_published(Path(scratch, name), *local.base.trunk_names)
        unlock_weights(Path(scratch))
        Path(scratch, name).rename(folder)


def load_adapter(base: AdaptedBase, folder: Path) -> dict[str, Tensor]:
    """Return the tensors that `save_adapter` wrote, by their names in the base that runs here.

    Raises:
        OSError, SafetensorError: The file is missing or broken.
    """
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(folder / WEIGHTS_FILE)
    if base.trunk_names is None:
        return tensors
    own, published = base.trunk_names
    return _renamed(tensors, published, own)


def _fit_published(folder: Path, own: str, published: str) -> None:
    """Rename the tensors of an adapter from the part of a model that runs here to the published model."""
    from safetensors.torch import load_file, save_file

    save_file(_renamed(load_file(folder / WEIGHTS_FILE), own, published), folder / WEIGHTS_FILE, {"format": "pt"})
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    layers = "|".join(map(re.escape, config["target_modules"]))  # those of the part alone: a vision tower has the same
    config["target_modules"] = rf"(?:{re.escape(published)}\..*\.)?(?:{layers})"
    file.write_text(json.dumps(config, indent=2, sort_keys=True), encoding="utf-8")


def _renamed(tensors: Mapping[str, Tensor], old: str, new: str) -> dict[str, Tensor]:
    """Return tensors with another name for the transformer that holds them."""
    before, after = (f"base_model.model.{name}." for name in (old, new))
    return {after + name.removeprefix(before) if name.startswith(before) else name: x for name, x in tensors.items()}


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
        base = team.local_agent(agent).base
        number = f".{base.peft_name(policy)}."
        found[policy] = {name.replace(number, "."): tensor for name, tensor in base.parameters(policy).items()}
    return found
