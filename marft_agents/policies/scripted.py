"""Policies without a model: scripted and random ones, and a team whose agents play different policies."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence

from marft_agents.policies.policy import Policy, Request, Sampler, text_action
from marft_agents.trajectory import Action


class ScriptedPolicy:
    """Answers by a function of the agent's name and its observation.

    Args:
        script: (agent, observation) -> action text.
    """

    def __init__(self, script: Callable[[str, str], str]) -> None:
        self.script = script

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return the script's answer to each request."""
        return [text_action(self.script(request.agent, request.observation)) for request in requests]


class RandomPolicy:
    """Answers random printable text from the turn's own generator.

    Args:
        max_chars: longest text.
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
    """Lets each agent play a policy of its own: a trained seat beside a frozen remote one, say.

    Args:
        policies: agent -> policy; agents that share an object are asked together.
    """

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self.policies = dict(policies)

    def refresh(self) -> None:
        """Let the samplers among the policies take over the adapters."""
        for policy in {id(policy): policy for policy in self.policies.values()}.values():
            if isinstance(policy, Sampler):
                policy.refresh()

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Ask each policy for its agents' actions."""
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
