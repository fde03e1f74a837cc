"""`--sampler`: which engine plays the training episodes: own generation, vLLM in this process, or a server."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from marft_agents.language_model import LanguageModelTeam
from marft_agents.policy import Policy
from marft_agents.sampler import SamplerError

OWN, VLLM = "own", "vllm"


def add_sampler_flag(parser: argparse.ArgumentParser) -> None:
    """Add --sampler."""
    parser.add_argument(
        "--sampler",
        default=OWN,
        metavar="own|vllm|URL",
        help="what plays the training episodes: own generation, vLLM in this process, or a server with a /v1 API that "
        "loads LoRA adapters, like http://localhost:8000/v1 (default: own)",
    )


def check_sampler(name: str) -> None:
    """Refuse a sampler that can not work, before any model is loaded.

    Raises:
        SamplerError: no such sampler, or its package is not installed.
    """
    if name == OWN:
        return
    if name != VLLM and not name.startswith(("http://", "https://")):
        raise SamplerError(f"--sampler {name!r}: wanted own, vllm, or the URL of a server, http://HOST:PORT/v1")
    package, extra = ("vllm", "vllm") if name == VLLM else ("openai", "remote")
    if importlib.util.find_spec(package) is None:
        raise SamplerError(f"--sampler {name} needs the package {package}: pip install 'marft[{extra}]'")


@contextlib.contextmanager
def open_sampler(name: str, team: LanguageModelTeam, folder: Path) -> Iterator[Policy]:
    """Give the policy that plays the training episodes; an engine is closed in the end.

    Args:
        name: own, vllm, or the URL of a server.
        team: the policies that learn.
        folder: where adapters are written for an engine to load.
    """
    if name == OWN:
        yield team
        return
    check_sampler(name)
    if name == VLLM:
        from marft_agents.vllm_sampler import VllmSampler

        with contextlib.closing(VllmSampler(team, folder)) as engine:
            yield engine
    else:
        from marft_agents.server_sampler import ServerSampler

        with contextlib.closing(ServerSampler(team, folder, name)) as server:
            yield server
