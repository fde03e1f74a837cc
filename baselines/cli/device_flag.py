"""`--device`: the device of all models, or of the models of single agents."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from marft_agents.policies.partners import split_item

if TYPE_CHECKING:  # they import torch, which flags do not need
    import torch

    from marft_agents.policies.team_building import Devices


class _Joined(argparse.Action):
    """Joins repeated values by commas."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is None else f"{before},{values}")


def add_device_flag(parser: argparse.ArgumentParser) -> None:
    """Add --device."""
    parser.add_argument(
        "--device",
        action=_Joined,
        metavar="[AGENT=]DEVICE",
        help="cpu, cuda, cuda:1, ... (default: CUDA if there, else CPU); AGENT=DEVICE for one agent; repeated, or with "
        "commas between. Agents of one model on several devices have a copy of it on each",
    )


def devices_of(text: str | None) -> Devices:
    """Return the devices that a value of --device names; a device for all replaces those before it.

    Raises:
        ValueError: A device does not exist on this machine.
    """
    if text is None:
        return None
    found: dict[str, torch.device] = {}
    for item in text.split(","):
        agent, name = split_item(item)
        found = {"*": _device(name)} if agent == "*" else found | {agent: _device(name)}
    return found["*"] if list(found) == ["*"] else found


def _device(name: str) -> torch.device:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ValueError(f"--device {name!r}: wanted cpu or cuda[:N]")
    import torch

    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ValueError(f"--device {name!r}: this machine has {count} CUDA devices, wanted cpu or one of them")
    return device
