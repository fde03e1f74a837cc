"""Samplers of training episodes: own generation, vLLM in this process, or a server with a /v1 API."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.random_models import random_model
from marft_agents.policies.policy import Policy
from marft_agents.policies.remote import NO_KEY, open_client, shorten
from marft_agents.policies.sampler_error import SamplerError
from marft_common.installation import pip_install

if TYPE_CHECKING:  # it imports torch, which checks of own generation do not need
    from marft_agents.policies.language_model import LanguageModelTeam

OWN, VLLM = "own", "vllm"
ANSWER_S = 10.0  # timeout of a server's list of models, in seconds


def check_sampler(name: str) -> None:
    """Refuse an unknown or uninstalled sampler before any model is loaded.

    Raises:
        SamplerError: There is no such sampler, or its package is not installed.
    """
    if name == OWN:
        return
    if name == VLLM:
        if importlib.util.find_spec("vllm") is None:
            from marft_agents.policies.vllm_sampler import NOT_INSTALLED

            raise SamplerError(NOT_INSTALLED)
        return
    if not name.startswith(("http://", "https://")):
        raise SamplerError(f"--sampler {name!r}: wanted own, vllm, or the URL of a server, http://HOST:PORT/v1")
    if importlib.util.find_spec("openai") is None:
        raise SamplerError(f"--sampler {name} needs the package openai: {pip_install('remote')}")


def check_play(names: str, models: Collection[str], sampling: SamplingParams, *, workers: int = 1) -> None:
    """Refuse a team or sampling parameters that a sampler cannot play, before any model is loaded.

    Args:
        names: "own", "vllm" or the URLs of as many servers as workers, separated by commas.
        models: Names of the base models of the team; a sampler takes one.
        sampling: Sampling parameters of generation.
        workers: Number of processes that play.

    Raises:
        SamplerError: The sampler cannot play the team, or a server does not list its models.
    """
    urls = names.split(",")
    if names not in (OWN, VLLM) and len(urls) != workers:
        # A name that is wrong in itself is told first: counting it as a server would mislead.
        for url in urls:
            check_sampler(url)
        raise SamplerError(
            f"--sampler {names}: found {len(urls)} servers for {workers} rollout workers, wanted one for each"
        )
    for name in urls:
        _check_one(name, models, sampling)


def sampler_of(names: str, worker: int) -> str:
    """Return the sampler of a worker: its own server of several, or the one that all use."""
    parts = names.split(",")
    return parts[worker % len(parts)]


def _check_one(name: str, models: Collection[str], sampling: SamplingParams) -> None:
    """Refuse a team that one sampler cannot play."""
    check_sampler(name)
    if name == OWN:
        return
    if len(models) > 1:
        raise SamplerError(f"--sampler {name} samples on one base model; this team plays {', '.join(sorted(models))}")
    if name == VLLM and (random := [model for model in models if random_model(model)]):
        raise SamplerError(f"--sampler vllm loads models from a folder or hub id; {random[0]!r} is neither")
    from marft_agents.policies.external_sampler import num_logprobs

    num_logprobs(sampling)  # refuses top-p without top-k: no engine tells such a support
    if name != VLLM:
        _ask(name)


def _ask(url: str) -> None:
    """Refuse a server that does not list its models."""
    from openai import OpenAIError

    from marft_agents.policies.server_log import last_error

    key = os.environ.get("OPENAI_API_KEY") or NO_KEY
    try:
        with contextlib.closing(open_client(url, key, timeout_s=ANSWER_S, retries=1)) as client:
            client.models.list()
    except (OpenAIError, ValueError) as error:  # ValueError: the body is not JSON
        raise SamplerError(
            f"--sampler {url}: wanted a server that lists its models, found {type(error).__name__}: {shorten(error)}"
            f"{last_error(url) or '; `marft vllm` starts one'}"
        ) from error


@contextlib.contextmanager
def open_sampler(name: str, team: LanguageModelTeam, folder: Path, *, canary: bool = True) -> Iterator[Policy]:
    """Open the policy that plays the training episodes, as a context manager that closes its engine.

    Args:
        name: "own", "vllm" or the URL of a server.
        team: Team whose policies are trained.
        folder: Folder of the adapters that an engine loads.
        canary: True to check after each update that an engine plays the current adapters.
    """
    if name == OWN:
        yield team
        return
    check_sampler(name)
    if name == VLLM:
        from marft_agents.policies.vllm_sampler import VllmSampler

        with contextlib.closing(VllmSampler(team, folder, canary=canary)) as engine:
            yield engine
    else:
        from marft_agents.policies.server_sampler import ServerSampler

        with contextlib.closing(ServerSampler(team, folder, name, canary=canary)) as server:
            yield server
