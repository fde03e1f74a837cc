"""Token actions: one token per step (`Discrete`), or a whole utterance of tokens at once (`MultiDiscrete`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marft_envs.spaces import UnicodeText
from marft_envs.wrappers.base import (
    ADDED_CHARS,
    AnyAEC,
    UtteranceView,
    add_message,
    as_index,
    as_text,
    state_text,
    wider,
)
from marft_envs.wrappers.tokens import Tokenizer, end_of

Grammar = Callable[[tuple[int, ...]], Iterable[int]]


class TokenAction(UtteranceView):
    """Wrapper with one token per step: the agent stays selected until the end token, then the game gets the text.

    The writing agent sees its partial utterance below its observation. An illegal token ends an utterance, and
    nothing is said.

    Args:
        env: An AEC environment with text actions.
        tokenizer: Tokenizer with the vocabulary of the actions.
        max_new_tokens: Most tokens of an utterance, without the end token.
        end_token: Id of the end token; None is that of the tokenizer.
        grammar: Maps the ids written so far to those allowed next; if it allows none, only the end is legal.

    Raises:
        ValueError: The actions of `env` are no text, or a number makes no sense.

    Examples:
        >>> digits = VocabularyTokenizer("0123456789")  # doctest: +SKIP
        >>> env = TokenAction(env, digits, max_new_tokens=3)  # doctest: +SKIP
    """

    shared = ("tokenizer", "grammar")
    joint = False

    def __init__(
        self,
        env: AnyAEC,
        tokenizer: Tokenizer,
        max_new_tokens: int,
        *,
        end_token: int | None = None,
        grammar: Grammar | None = None,
    ) -> None:
        super().__init__(env)
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: found {max_new_tokens}, wanted at least 1")
        self.tokenizer, self.max_new_tokens, self.grammar = tokenizer, max_new_tokens, grammar
        self.end_token = end_of(tokenizer, end_token)
        self.action_spaces = {agent: spaces.Discrete(len(tokenizer)) for agent in env.possible_agents}
        self.observation_spaces = {agent: wider(space) for agent, space in self.observation_spaces.items()}
        self.state_space = UnicodeText(2 * ADDED_CHARS)
        self.written: tuple[int, ...] = ()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; arguments as in the game."""
        self.written = ()
        super().reset(seed, options)

    def step(self, action: Any) -> None:
        """Write a token."""
        agent = self.agent_selection
        if not self._is_acting(agent):
            super().step(action)
            return
        self._refuse_none(action)
        token = as_index(action, len(self.tokenizer))
        if token is None or not self.action_mask(agent)[token]:
            self._end(None)
            return
        written = self.written if token == self.end_token else (*self.written, token)
        if token == self.end_token or len(written) == self.max_new_tokens:
            self._end(self.tokenizer.decode(list(written)))
        else:
            self.written = written

    def _end(self, text: str | None) -> None:
        self.written = ()
        self._say(text)

    @property
    def rewards(self) -> dict[str, float]:  # type: ignore[override]
        """Rewards of the last step: zero for a token within an utterance."""
        return dict.fromkeys(self.env.agents, 0.0) if self.written else self.env.rewards

    @property
    def _cumulative_rewards(self) -> dict[str, float]:  # type: ignore[override]
        paid: dict[str, float] = self.env._cumulative_rewards
        return {**paid, self.agent_selection: 0.0} if self.written else paid

    def action_mask(self, agent: str) -> NDArray[np.int8]:
        """Return 1 for each token that the grammar allows next; 1 everywhere for an agent that does not act now."""
        if self.grammar is None or not self._is_acting(agent):
            return np.ones(len(self.tokenizer), np.int8)
        mask = np.zeros(len(self.tokenizer), np.int8)
        mask[list(self.grammar(self.written)) or [self.end_token]] = 1
        return mask

    def observe(self, agent: str) -> Any:
        """Return an agent's observation."""
        seen = super().observe(agent)
        return self._with_written(seen) if agent == self.agent_selection else seen

    def state(self) -> Any:
        """Return the whole conversation and the partial utterance."""
        return self._with_written(as_text(state_text(self.env)))

    def _with_written(self, seen: Any) -> Any:
        if not self.written:
            return seen
        return add_message(seen, self.agent_selection, self.tokenizer.decode(list(self.written))[: ADDED_CHARS // 2])


class TokenSequenceAction(UtteranceView):
    """Wrapper with a whole utterance of `length` tokens per step; tokens after the first end token are ignored.

    Args:
        env: An AEC environment with text actions.
        tokenizer: Tokenizer with the vocabulary of the actions.
        length: Number of tokens, the end token among them.
        end_token: Id of the end token; None is that of the tokenizer.

    Raises:
        ValueError: The actions of `env` are no text, or a number makes no sense.
    """

    shared = ("tokenizer",)

    def __init__(self, env: AnyAEC, tokenizer: Tokenizer, length: int, *, end_token: int | None = None) -> None:
        super().__init__(env)
        if length < 1:
            raise ValueError(f"length: found {length}, wanted at least 1")
        self.tokenizer, self.length = tokenizer, length
        self.end_token = end_of(tokenizer, end_token)
        size = [len(tokenizer)] * length
        self.action_spaces = {agent: spaces.MultiDiscrete(size) for agent in env.possible_agents}

    def step(self, action: Any) -> None:
        """Say the text of the tokens."""
        if not self._is_acting(self.agent_selection):
            super().step(action)
            return
        self._refuse_none(action)
        self._say(self._read(action))

    def _read(self, action: Any) -> str | None:
        try:
            ids = [as_index(token, len(self.tokenizer)) for token in action]
        except TypeError:
            return None
        if len(ids) != self.length or None in ids:
            return None
        end = ids.index(self.end_token) if self.end_token in ids else len(ids)
        return self.tokenizer.decode([token for token in ids[:end] if token is not None])
