"""`--sampler`: which engine plays the training episodes: own generation, vLLM in this process, or a server."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from marft_agents.generation.sampling import SamplingLaw
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Policy
from marft_agents.policies.remote import NO_KEY, open_client, shorten
from marft_agents.policies.sampler import SamplerError, num_logprobs

OWN, VLLM = "own", "vllm"
ANSWER_S = 10.0  # in which a server lists its models


def add_sampler_flag(parser: argparse.ArgumentParser) -> None:
    """Add --sampler."""
    parser.add_argument(
        "--sampler",
        metavar="own|vllm|URL",
        help="what plays the training episodes: own generation, vLLM in this process, or a server with a /v1 API that "
        f"loads LoRA adapters, like http://localhost:8000/v1 (default: {OWN})",
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


def check_play(name: str, models: Collection[str], law: SamplingLaw) -> None:
    """Refuse what a sampler can not play, and a server that does not answer, before any model is loaded.

    Args:
        name: own, vllm, or the URL of a server.
        models: names of the models that the team plays.
        law: how tokens are sampled.

    Raises:
        SamplerError: see the message.
    """
    check_sampler(name)
    if name == OWN:
        return
    if len(models) > 1:
        raise SamplerError(f"--sampler {name} samples on one base model; this team plays {', '.join(sorted(models))}")
    if name == VLLM and "tiny" in models:
        raise SamplerError("--sampler vllm loads models from a folder or hub id; 'tiny' is neither")
    num_logprobs(law)
    if name != VLLM:
        _ask(name)


def _ask(url: str) -> None:
    from openai import OpenAIError

    key = os.environ.get("OPENAI_API_KEY") or NO_KEY
    try:
        with contextlib.closing(open_client(url, key, timeout_s=ANSWER_S, retries=1)) as client:
            client.models.list()
    except (OpenAIError, ValueError) as error:  # ValueError: a body that is no JSON
        raise SamplerError(
            f"--sampler {url}: wanted a server that lists its models, found {type(error).__name__}: {shorten(error)}"
        ) from error


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
        from marft_agents.policies.vllm_sampler import VllmSampler

        with contextlib.closing(VllmSampler(team, folder)) as engine:
            yield engine
    else:
        from marft_agents.policies.server_sampler import ServerSampler

        with contextlib.closing(ServerSampler(team, folder, name)) as server:
            yield server
