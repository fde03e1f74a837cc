"""Spaces and observations of text games.

`gymnasium.spaces.Text` cannot hold the output of language models. Its default alphabet is letters and digits,
and a full alphabet costs seconds and 193 MB. `UnicodeText` is bounded by length only. `TextObservation` is a
`str` that PettingZoo's own `api_test` accepts. It also carries its chat form, so that a policy need
not parse text.
"""

from __future__ import annotations

import copy
import string
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from gymnasium import spaces
from gymnasium.error import CustomSpaceError
from gymnasium.vector.utils.shared_memory import create_shared_memory

SAMPLE_ALPHABET = string.ascii_letters + string.digits + " .,;:?!+-*/=()\n"


class Message(NamedTuple):
    """One message of a conversation: chat role, content, and the author's name if known."""

    role: str
    content: str
    name: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the form that chat templates take; without the key `name` if there is none."""
        plain = {"role": self.role, "content": self.content}
        return plain | {"name": self.name} if self.name else plain


class TextObservation(str):
    """An agent's observation as plain text; `messages` is the same as a conversation.

    Third-party algorithms need only the text; equality, hashing and JSON are those of the text.
    `dtype` exists because `pettingzoo.test.api_test` compares it with the dtype of the space.

    Args:
        text: The plain form.
        messages: The chat form, as `Message` tuples or dicts of role, content and optionally name.
        fixed_messages: Number of leading messages that hold the profile and the problem. A policy with a short context
            window may shorten the others only. None: not known.
    """

    dtype = np.dtype(str)
    fixed_messages: int | None
    _messages: tuple[Message, ...]

    def __new__(
        cls,
        text: str = "",
        messages: Iterable[Message | Mapping[str, str]] = (),
        fixed_messages: int | None = None,
    ) -> TextObservation:
        """Make the observation."""
        observation = super().__new__(cls, text)
        observation.fixed_messages = fixed_messages
        observation._messages = tuple(
            message if isinstance(message, Message) else Message(**message) for message in messages
        )
        return observation

    def __deepcopy__(self, memo: dict[int, Any]) -> TextObservation:
        """Return itself: it never changes, and a game holds one of every turn."""
        return self

    @classmethod
    def of(cls, messages: tuple[Message, ...], fixed_messages: int | None = None) -> TextObservation:
        """Join the messages, each under the name of its author (or its role)."""
        text = "\n\n".join([f"[{name or role}]\n{content}" for role, content, name in messages])
        observation = str.__new__(cls, text)
        observation._messages = messages
        observation.fixed_messages = fixed_messages
        return observation

    @property
    def messages(self) -> tuple[dict[str, str], ...]:
        """The chat form, newly built: changing it changes no observation."""
        return tuple(message.as_dict() for message in self._messages)


class UnicodeText(spaces.Text):
    r"""Any string of bounded length that can be written as UTF-8 (so no lone surrogate).

    Args:
        max_length: Most characters, inclusive.
        min_length: Fewest characters, inclusive.
        sample_length: Most characters of printable ASCII that `sample()` draws.
        sample_fn: Draws a sample from the space's own generator instead, e.g. plausible answers.
        seed: Seed of `sample()`.

    Examples:
        >>> space = UnicodeText(100)
        >>> "√2 ≤ 中🙂\n" in space, "\ud800" in space, b"bytes" in space
        (True, False, False)
        >>> space
        UnicodeText(0, 100)
    """

    def __init__(
        self,
        max_length: int,
        *,
        min_length: int = 0,
        sample_length: int = 32,
        sample_fn: Callable[[np.random.Generator], str] | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(max_length, min_length=min_length, charset=SAMPLE_ALPHABET, seed=seed)
        self.sample_length = max(min_length, min(sample_length, max_length))
        self.sample_fn = sample_fn

    def contains(self, x: Any) -> bool:
        """Return True if `x` is a string of this space."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length and is_clean(x)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a short string; with a mask or probabilities as `gymnasium.spaces.Text` does."""
        if mask is not None or probability is not None:
            return super().sample(mask=mask, probability=probability)
        if self.sample_fn is not None:
            return self.sample_fn(self.np_random)
        length = self.np_random.integers(self.min_length, self.sample_length + 1)
        places = self.np_random.integers(0, len(SAMPLE_ALPHABET), size=length)
        return "".join([SAMPLE_ALPHABET[place] for place in places])

    @property
    def is_np_flattenable(self) -> bool:
        """False: a string has no array form here."""
        return False

    def __deepcopy__(self, memo: dict[int, Any]) -> UnicodeText:
        """Copy the space with a generator of its own; the tables of its alphabet never change and are shared."""
        clone = copy.copy(self)
        memo[id(self)] = clone
        clone._np_random = copy.deepcopy(self._np_random, memo)
        clone.sample_fn = copy.deepcopy(self.sample_fn, memo)
        return clone

    def __repr__(self) -> str:
        return f"UnicodeText({self.min_length}, {self.max_length})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UnicodeText)
            and self.min_length == other.min_length
            and self.max_length == other.max_length
        )

    def __hash__(self) -> int:
        return hash((UnicodeText, self.min_length, self.max_length))


def is_clean(text: str) -> bool:
    """Return True if the text can be written as UTF-8, i.e. holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def clean(text: str) -> str:
    r"""Replace each lone surrogate by U+FFFD.

    Examples:
        >>> clean("a\ud800b") == "a\ufffdb"
        True
    """
    if is_clean(text):
        return text
    return "".join(["\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text])


def fit(text: str, max_chars: int) -> tuple[str, str]:
    """Convert any text to a member of a space; return it and its fault, empty if there was none.

    Examples:
        >>> fit("12345", 3)
        ('123', 'cut from 5 to 3 characters')
    """
    if len(text) <= max_chars and is_clean(text):
        return text, ""
    faults = []
    if len(text) > max_chars:
        faults.append(f"cut from {len(text)} to {max_chars} characters")
        text = text[:max_chars]
    if not is_clean(text):
        faults.append("lone surrogates replaced")
    return clean(text), "; ".join(faults)


@create_shared_memory.register(UnicodeText)
def _refuse_shared_memory(space: UnicodeText, n: int = 1, ctx: ModuleType | None = None) -> NoReturn:
    # Gymnasium's AsyncVectorEnv copies Text out of shared memory once, then silently returns zeros for ever.
    raise CustomSpaceError(
        f"{space} does not fit into shared memory ({n} environments asked for it): "
        "make the vector environment with shared_memory=False, or with vectorization_mode='sync'"
    )
