"""Agents of a team that are not trained: frozen local models, OpenAI-compatible endpoints, remote A2A agents.

The name of an agent's model says which it is. A plain name is a model that gets a LoRA adapter.

| name | agent |
|---|---|
| `MODEL` | a local model with an adapter of its own |
| `frozen:MODEL` | the same local model without an adapter |
| `endpoint:URL#NAME` | model NAME of an OpenAI-compatible server |
| `a2a:URL` | an agent that speaks A2A |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.model_error import ModelError
from marft_agents.policies.policy import Policy
from marft_agents.policies.remote import RemoteError, RemotePolicy, TokenLimit
from marft_agents.setting_fields import check_knobs, knob
from marft_common.close_names import close_names

FROZEN, ENDPOINT, A2A = "frozen", "endpoint", "a2a"
ANSWER_S = 10.0  # timeout of the check that a remote agent answers, in seconds


@dataclass(frozen=True)
class RemoteSettings:
    """Time limit, repetition and concurrency of requests to remote agents."""

    remote_timeout: float = knob(
        60.0, "seconds in which a remote agent must answer one request", lambda v: v > 0, "> 0"
    )
    remote_retries: int = knob(
        2,
        "further tries of a request that failed; after the last one its episode has failed, with the cause",
        lambda v: v >= 0,
        ">= 0",
    )
    remote_concurrency: int = knob(8, "requests to one remote agent at the same time", lambda v: v >= 1, ">= 1")
    remote_token_limit: TokenLimit = knob(
        "max_tokens",
        "name of the token limit in requests to endpoints; those of reasoning models want max_completion_tokens",
    )
    remote_seed: bool = knob(True, "send a seed with each request to an endpoint; some refuse it")

    def __post_init__(self) -> None:
        check_knobs(self)

    def limits(self) -> dict[str, Any]:
        """Return the keywords of every remote policy."""
        return {
            "timeout_s": self.remote_timeout,
            "retries": self.remote_retries,
            "concurrency": self.remote_concurrency,
        }

    def of_endpoint(self) -> dict[str, Any]:
        """Return the keywords of `RemotePolicy`."""
        return {**self.limits(), "token_limit": self.remote_token_limit, "sends_seed": self.remote_seed}


@dataclass(frozen=True)
class AgentModel:
    """Model of an agent, as its name tells.

    Attributes:
        kind: "" for a trained local model, "frozen", "endpoint" or "a2a".
        source: Name of the local model, or the URL.
        name: Name of the model at an endpoint; else empty.
    """

    kind: str
    source: str
    name: str = ""

    @property
    def local(self) -> bool:
        """True for a model that is loaded into this process."""
        return self.kind in ("", FROZEN)

    def __str__(self) -> str:
        text = f"{self.kind}:{self.source}" if self.kind else self.source
        return f"{text}#{self.name}" if self.name else text


def agent_model(text: str) -> AgentModel:
    """Read the name of an agent's model.

    Raises:
        ValueError: The name of a partner is not of its form.

    Examples:
        >>> agent_model("endpoint:http://localhost:8000/v1#some-model").name
        'some-model'
    """
    kind, sign, source = text.partition(":")
    if not sign or kind not in (FROZEN, ENDPOINT, A2A):
        return AgentModel("", text)
    if kind == FROZEN:
        if not source:
            raise ValueError(f"model {text!r}: wanted frozen:MODEL, like frozen:smollm2-135m")
        return AgentModel(FROZEN, source)
    url, _, name = source.partition("#")
    if not url.startswith(("http://", "https://")) or (kind == ENDPOINT) != bool(name):
        wanted = "endpoint:URL#NAME, like endpoint:http://localhost:8000/v1#some-model"
        raise ValueError(
            f"model {text!r}: wanted {wanted if kind == ENDPOINT else 'a2a:URL, like a2a:http://localhost:9999'}"
        )
    return AgentModel(kind, url, name)


def models_of(agents: Sequence[str], models: Mapping[str, str]) -> dict[str, AgentModel]:
    """Return the model of each agent of a team.

    Args:
        agents: Agent ids in the order of the team.
        models: Agent -> model name; the key "*" stands for all others.

    Raises:
        ModelError: A name is not that of an agent, or an agent has no model.
        ValueError: The name of a partner is not of its form.
    """
    unknown = sorted(set(models) - set(agents) - {"*"})
    missing = [agent for agent in agents if agent not in models and "*" not in models]
    if unknown or missing:
        close = {name: close_names(name, agents) for name in unknown}
        meant = "".join(f"; did you mean {found[0]} for {name!r}?" for name, found in close.items() if found)
        faults = [f"no agent is called {' or '.join(map(repr, unknown))}"] if unknown else []
        faults += [f"no model is given for {' and '.join(missing)}"] if missing else []
        raise ModelError(f"models: {', and '.join(faults)}; the team plays {', '.join(agents)}{meant}")
    return {agent: agent_model(models.get(agent, models.get("*", ""))) for agent in agents}


def split_item(item: str) -> tuple[str, str]:
    """Split `AGENT=MODEL` into agent and model; "*" is the agent of a plain MODEL.

    Examples:
        >>> split_item("actor_0=frozen:tiny"), split_item("endpoint:http://host/v1?a=b#name")
        (('actor_0', 'frozen:tiny'), ('*', 'endpoint:http://host/v1?a=b#name'))
    """
    agent, sign, model = item.partition("=")
    if not sign or agent_prefix(item):
        return "*", item
    return agent, model


def agent_prefix(text: str) -> bool:
    """Return True if a text starts like the name of a partner."""
    return text.partition(":")[0] in (FROZEN, ENDPOINT, A2A) and ":" in text.partition("=")[0]


class Partner(Policy, Protocol):
    """Policy of a remote agent of a team."""

    def under(self, sampling: SamplingParams) -> Partner:
        """Return the same agent with other sampling parameters."""
        ...

    def check(self) -> None:
        """Raise a RemoteError if the agent does not answer."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def open_partner(model: AgentModel, sampling: SamplingParams, settings: RemoteSettings | None = None) -> Partner:
    """Return the policy of a remote agent; a request that fails makes its episode fail.

    Args:
        model: Model of kind "endpoint" or "a2a".
        sampling: Sampling parameters; an A2A agent has its own.
        settings: Limits of the requests.

    Raises:
        RemoteError: A package is missing, or the sampling parameters cannot be asked for.
    """
    settings = settings or RemoteSettings()
    if model.kind == A2A:
        from marft_agents.policies.a2a_agent import A2APolicy

        return A2APolicy(model.source, **settings.limits())
    return RemotePolicy(model.source, model.name, sampling, **settings.of_endpoint(), fails_episodes=True)


def check_partners(models: Mapping[str, str], sampling: SamplingParams) -> None:
    """Refuse remote agents that do not answer, before any model is loaded.

    Args:
        models: Model name by agent.
        sampling: Sampling parameters of the team.

    Raises:
        RemoteError: An agent does not answer; the message names it.
        ValueError: The name of a partner is not of its form.
    """
    limits = RemoteSettings(remote_timeout=ANSWER_S, remote_retries=1)
    for agent, text in models.items():
        model = agent_model(text)
        if model.local:
            continue
        partner = open_partner(model, sampling, limits)
        try:
            partner.check()
        except RemoteError as error:
            who = "the team" if agent == "*" else agent
            raise RemoteError(f"--model {who}: {error}") from error
        finally:
            partner.close()
