"""Text observations as vectors in blocks, one per source, so that a long prompt does not drown a partner's word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from gymnasium import spaces

from marft_envs.spaces import Message, TextObservation
from marft_envs.wrappers.base import AnyAEC
from marft_envs.wrappers.numeric_observation import Array, HashedNgrams, NumericObservation

_PROFILE, _TASK, _TOLD, _OWN = "profile", "task", "environment", "own"
_PRIVATE = (_PROFILE, _TASK, _TOLD, _OWN)  # blocks of the agent itself
_OF_PROFILE = ("system", "assistant")  # roles before the problem: the system prompt, and answers in its examples


class BlockObservation(NumericObservation):
    """A vector per observation, float32, of blocks that are each of norm 1, or 0 where there is no text.

    An observation has the blocks `profile` (the system prompt and its examples), `task` (the problem), `environment`
    (what it has told since, the newest messages), `own` (the agent's last action, or the part of it that is written so
    far), and one block for the newest visible action of each other agent, in team order. The state has the first four
    blocks of each agent in team order, so no visibility limits; an agent that has left is 0.

    This is version 1 of the vector view. `EmbeddingObservation`, version 0, embeds the whole observation as one text.

    Args:
        env: An AEC environment with text observations. Of a plain string all is the `task`.
        embed: Maps the text of a block to a vector of fixed length: hashed n-grams by default, `FrozenFeatures` of
            `marft_agents`, a sentence transformer's `encode`, ...; the empty text is never asked for but at the start.

    Attributes:
        dim: Components of a block.

    Raises:
        TypeError: `embed` is no function.
        ValueError: The observations of `env` are no text, or `embed` gives no vector.
    """

    shared = ("embed",)

    def __init__(self, env: AnyAEC, embed: Callable[[str], Any] | None = None) -> None:
        if embed is not None and not callable(embed):
            raise TypeError(f"embed: found {embed!r}, wanted a function that maps text to a vector")
        self.embed = HashedNgrams() if embed is None else embed
        self.dim = np.asarray(self.embed("")).size
        if self.dim < 1:
            raise ValueError("embed: found a vector without components, wanted at least one")
        self._block = _box(self.dim)
        team = list(env.possible_agents)
        super().__init__(
            env, _box(self.dim * (len(_PRIVATE) + len(team) - 1)), _box(self.dim * len(_PRIVATE) * len(team))
        )
        # `RenamedAgents` keeps the order of the agents, and the names of the game as authors.
        self._names = dict(zip(chain(env.unwrapped.possible_agents, team), (*team, *team), strict=True))

    def blocks(self, agent: str) -> dict[str, str]:
        """Return the text of each block of an agent's observation, by source."""
        texts = _by_source(self.env.observe(agent) or "", agent, self._names)
        others = [other for other in self.env.possible_agents if other != agent]
        return {source: texts.get(source, "") for source in (*_PRIVATE, *others)}

    def observe(self, agent: str) -> Array:
        """Return an agent's observation as a new array."""
        return np.concatenate(self._vectors(agent, self.blocks(agent)))

    def state(self) -> Array:
        """Return what each agent was told and said last, without visibility limits, as a new array."""
        vectors: list[Array] = []
        for agent in self.env.possible_agents:
            texts = self.blocks(agent) if agent in self.env.agents else {}
            vectors += self._vectors(agent, {source: texts.get(source, "") for source in _PRIVATE})
        return np.concatenate(vectors)

    def _vectors(self, agent: str, texts: Mapping[str, str]) -> list[Array]:
        return [self._remember((agent, source), text, self._block) for source, text in texts.items()]

    def _read(self, text: str, space: spaces.Space[Any]) -> Array:
        """Embed the text of a block, at norm 1."""
        if not text:
            return np.zeros(self.dim, np.float32)
        vector = np.asarray(self.embed(text), np.float32).reshape(-1)
        if vector.size != self.dim or not np.isfinite(vector).all():
            found = f"{vector.size} components" if vector.size != self.dim else "a component that is not finite"
            raise ValueError(f"embed: found {found} for {text[:40]!r}, wanted {self.dim} finite ones")
        unit: Array = np.clip(vector / (float(np.linalg.norm(vector)) or 1.0), -1.0, 1.0)
        return unit


def _box(size: int) -> spaces.Box:
    return spaces.Box(-1.0, 1.0, (size,), np.float32)


def _by_source(seen: str, viewer: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that an agent sees, by source: those of `_PRIVATE`, and the other agents.

    Args:
        seen: The observation, text or plain string.
        viewer: Agent that observes it.
        names: Agents by the names that messages give as their author.
    """
    messages = seen._messages if isinstance(seen, TextObservation) else ()
    messages = messages or (Message("user", str(seen)),)
    fixed = seen.fixed_messages if isinstance(seen, TextObservation) else None
    if fixed is None:
        fixed = next((place for place, message in enumerate(messages) if message.name in names), len(messages))
    before = [place for place, message in enumerate(messages[:fixed], start=1) if message.role in _OF_PROFILE]
    problem = before[-1] if before else 0
    texts = {
        _PROFILE: "\n".join([message.content for message in messages[:problem]]),
        _TASK: "\n".join([message.content for message in messages[problem:fixed]]),
    }
    told: list[str] = []
    acted = False
    for message in messages[fixed:]:
        author = names.get(message.name)
        if author is None:
            # Older news were known when the agent acted. They stay until there are others, since its last message may
            # be an action that is still being written.
            told = [*([] if acted else told), message.content]
            acted = False
        elif author == viewer:
            texts[_OWN], acted = message.content, True
        else:
            texts[author] = message.content
    return texts | {_TOLD: "\n".join(told)}
