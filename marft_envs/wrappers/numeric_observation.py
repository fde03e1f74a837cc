"""Text observations as arrays: token ids, one-hot tokens, or any embedding; and the state for central critics."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marft_envs.wrappers.base import AnyAEC, TextView, state_text
from marft_envs.wrappers.tokens import Tokenizer

Array = NDArray[Any]
_WORD = re.compile(r"[a-z]+|\S")  # each digit and each Chinese character is a word


class NumericObservation(TextView):
    """A wrapper with arrays made from text as observations and state; `state()` is the whole conversation.

    Args:
        env: An AEC environment with text observations.
        space: Space of one observation.
        state_space: Space of the state.

    Raises:
        ValueError: Its observations are no text.
    """

    def __init__(self, env: AnyAEC, space: spaces.Box, state_space: spaces.Box) -> None:
        super().__init__(env)
        for agent, seen in self.observation_spaces.items():
            if not isinstance(seen, spaces.Text):
                raise ValueError(f"{type(self).__name__}: the observations of {agent} are {seen}, wanted text")
        self.observation_spaces = {
            agent: spaces.Box(space.low, space.high, space.shape, space.dtype.type)  # each with a seed of its own
            for agent in env.possible_agents
        }
        self.state_space = state_space
        self._known: dict[Hashable, tuple[str, Array]] = {}

    def _read(self, text: str, space: spaces.Space[Any]) -> Array:
        """Convert text to a member of a space."""
        raise NotImplementedError

    def observe(self, agent: str) -> Array:
        """Return an agent's observation as a new array."""
        return self._remember(agent, self.env.observe(agent) or "", self.observation_spaces[agent])

    def state(self) -> Array:
        """Return the whole conversation, without visibility limits, as a new array."""
        return self._remember("", state_text(self.env), self.state_space)

    def _remember(self, whose: Hashable, text: str, space: spaces.Space[Any]) -> Array:
        """Return the array of a text, cached per agent or block: libraries observe all agents after each step."""
        if whose not in self._known or self._known[whose][0] != text:
            self._known[whose] = (text, self._read(text, space))
        return self._known[whose][1].copy()


class TokenObservation(NumericObservation):
    """Token ids, the newest last: padded at the left, and cut there.

    Args:
        env: An AEC environment with text observations.
        tokenizer: Tokenizer with a pad token; one without (or with pad = end) gets an id of its own, `len(tokenizer)`.
        length: Number of tokens of an observation.
        one_hot: Vectors of `length * len(tokenizer)` float32 zeros and ones instead; a pad is all zeros.
        state_length: Number of tokens of the state; None is `length`.

    Raises:
        ValueError: The observations of `env` are no text, or a length is none.
    """

    shared = ("tokenizer",)

    def __init__(
        self,
        env: AnyAEC,
        tokenizer: Tokenizer,
        length: int,
        *,
        one_hot: bool = False,
        state_length: int | None = None,
    ) -> None:
        self.tokenizer, self.length, self.one_hot = tokenizer, length, one_hot
        self.state_length = length if state_length is None else state_length
        if min(self.length, self.state_length) < 1:
            raise ValueError(f"length: found {self.length} (state {self.state_length}), wanted at least 1")
        pad = getattr(tokenizer, "pad_token_id", None)
        own = pad is None or pad == getattr(tokenizer, "eos_token_id", None)
        self.pad_token: int = len(tokenizer) if own or pad is None else int(pad)
        super().__init__(env, self._space(self.length), self._space(self.state_length))

    def _space(self, length: int) -> spaces.Box:
        if self.one_hot:
            return spaces.Box(0.0, 1.0, (length * len(self.tokenizer),), np.float32)
        return spaces.Box(0, max(len(self.tokenizer) - 1, self.pad_token), (length,), np.int64)

    def _read(self, text: str, space: spaces.Space[Any]) -> Array:
        length = self.state_length if space is self.state_space else self.length
        ids = self.tokenizer.encode(str(text))[-length:]
        if self.one_hot:
            hot = np.zeros((length, len(self.tokenizer)), np.float32)
            hot[np.arange(length - len(ids), length), ids] = 1.0
            return hot.reshape(-1)
        return np.asarray([self.pad_token] * (length - len(ids)) + ids, np.int64)


class EmbeddingObservation(NumericObservation):
    """A vector per observation, float32: version 0 of the vector view.

    A partner's word moves this vector less the longer the prompt is; `BlockObservation` is version 1.

    Args:
        env: An AEC environment with text observations.
        embed: Maps text to a vector of fixed length: hashed n-grams by default, a sentence transformer's `encode`, ...;
            our games pass the observation itself, with its `messages`.
        bound: Components are clipped to [-bound, bound]; `np.inf` for no bound.

    Raises:
        ValueError: The observations of `env` are no text.
    """

    shared = ("embed",)

    def __init__(self, env: AnyAEC, embed: Callable[[str], Any] | None = None, *, bound: float = 1.0) -> None:
        self.embed = HashedNgrams() if embed is None else embed
        dim = np.asarray(self.embed("")).size
        super().__init__(env, *(spaces.Box(-bound, bound, (dim,), np.float32) for _ in range(2)))

    def _read(self, text: str, space: spaces.Space[Any]) -> Array:
        assert isinstance(space, spaces.Box)
        vector = np.asarray(self.embed(text), np.float32).reshape(-1)
        return np.clip(vector, space.low, space.high)


@dataclass(frozen=True)
class HashedNgrams:
    """An embedding without a model: counts of word n-grams, hashed with a sign into `dim` components, of norm 1.

    Args:
        dim: Number of components of the vector.
        orders: Values of n; runs of letters are words, every other character is one of its own.

    Examples:
        >>> embed = HashedNgrams(dim=64)
        >>> embed("12 cups").shape, [bool(np.all(embed("12 cups") == embed(other))) for other in ("12 CUPS", "21 cups")]
        ((64,), [True, False])
    """

    dim: int = 256
    orders: tuple[int, ...] = (1, 2)

    def __call__(self, text: str) -> NDArray[np.float32]:
        """Embed a text; the empty one is all zeros."""
        words = _WORD.findall(text.lower())
        vector = np.zeros(self.dim, np.float32)
        for order in self.orders:
            for start in range(len(words) - order + 1):
                # no checksum: CRCs are linear, so that "heard 0" and "heard 2" would get the same places, swapped
                gram = " ".join(words[start : start + order]).encode("utf-8", "surrogatepass")
                code = int.from_bytes(blake2b(gram, digest_size=8).digest(), "little")
                vector[(code >> 1) % self.dim] += 1 if code & 1 else -1
        return vector / (float(np.linalg.norm(vector)) or 1.0)
