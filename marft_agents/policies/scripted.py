"""Policies without a model: scripted and random policies, and a mix of policies in one team."""

from __future__ import annotations

import string
from collections.abc import Callable, Hashable, Mapping, Sequence

from marft_agents.policies.policy import Policy, Request, Sampler, session_of, text_action
from marft_agents.trajectory import Action


class ScriptedPolicy:
    """Policy that computes each action from the agent's id and its observation.

    Args:
        script: Maps (agent, observation) to the action text.
    """

    def __init__(self, script: Callable[[str, str], str]) -> None:
        self.script = script

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return the script's answer to each request."""
        return [text_action(self.script(request.agent, request.observation)) for request in requests]


class RandomPolicy:
    """Policy that answers with random printable text from the turn's own generator.

    Args:
        max_chars: Largest length of a text in characters.
    """

    def __init__(self, max_chars: int = 32) -> None:
        self.max_chars = max_chars

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return one random text per request."""
        alphabet = string.ascii_letters + string.digits + " .,=+-"
        actions = []
        for request in requests:
            length = int(request.generator.integers(0, self.max_chars + 1))
            picks = request.generator.integers(0, len(alphabet), size=length)
            actions.append(text_action("".join(alphabet[i] for i in picks)))
        return actions


class MixedPolicy:
    """Team policy in which each agent has a policy of its own, such as a trained agent beside a frozen remote one.

    Args:
        policies: Agent -> policy; agents with the same policy object are answered in one call.
    """

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self.policies = dict(policies)

    @property
    def caches(self) -> dict[str, Hashable]:
        """Agent -> key of the KV cache that it could share, for agents whose policy tells; see `LanguageModelTeam`."""
        told = {agent: getattr(policy, "caches", {}) for agent, policy in self.policies.items()}
        return {agent: caches[agent] for agent, caches in told.items() if agent in caches}

    def refresh(self) -> None:
        """Refresh the adapters of every `Sampler` among the policies."""
        for policy in {id(policy): policy for policy in self.policies.values()}.values():
            if isinstance(policy, Sampler):
                policy.refresh()

    def open_session(self) -> MixedPolicy:
        """Return sessions of all policies."""
        sessions = {id(policy): session_of(policy) for policy in self.policies.values()}
        return MixedPolicy({agent: sessions[id(policy)] for agent, policy in self.policies.items()})

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Ask each policy for its agents' actions; return all of them in request order."""
        members: dict[int, list[int]] = {}
        for i, request in enumerate(requests):
            if request.agent not in self.policies:
                raise KeyError(f"no policy for agent {request.agent!r}; there are {', '.join(self.policies)}")
            members.setdefault(id(self.policies[request.agent]), []).append(i)
        answers: dict[int, Action] = {}
        for indices in members.values():
            policy = self.policies[requests[indices[0]].agent]
            answers.update(zip(indices, policy.act([requests[i] for i in indices]), strict=True))
        return [answers[i] for i in range(len(requests))]
