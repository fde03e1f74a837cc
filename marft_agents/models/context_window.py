"""Fit a conversation into a model's context window without losing the problem.

The system prompt, the problem and the latest turn always reach the model whole. If a prompt is too long, tokens are
removed from the middle of the longest other turns, and a marker gives their number. Messages are shortened before
the chat template is applied, so a prompt is always a well-formed conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from marft_agents.setting_fields import SettingsError, check_knobs, knob
from marft_agents.trajectory import Shortening

LARGEST_DEFAULT = 8192  # tokens; a longer default window could use more memory than expected
ENVIRONMENT = "environment"  # author name of messages that no agent wrote

Overflow = Literal["shorten", "error"]
Message = Mapping[str, str]


class ContextOverflowError(ValueError):
    """A prompt longer than the context window; names the agent, tokens found and tokens wanted."""


@dataclass(frozen=True)
class ContextSettings:
    """Length limit of a prompt with its action, and the treatment of longer prompts."""

    context_window: int | None = knob(
        None,
        f"tokens of a prompt and its action together; none: what the model can, at most {LARGEST_DEFAULT:,}",
        lambda value: value is None or value >= 2,
        ">= 2 or none",
    )
    overflow: Overflow = knob(
        "shorten",
        "a prompt that is too long: shorten the middle of its longest earlier turns, or end the run with an error",
    )

    def __post_init__(self) -> None:
        check_knobs(self)


def choose_window(model: str, longest: int | None, context: ContextSettings, new_tokens: int) -> int:
    """Return the context window of a model in tokens.

    Args:
        model: Model name for the error message.
        longest: Largest number of tokens the model can read; None if unknown.
        context: Settings with the requested window.
        new_tokens: Tokens of the longest action, which must leave room for a prompt.

    Raises:
        SettingsError: The model cannot read so many tokens, or an action may fill the whole window.
    """
    window = context.context_window or min(longest or LARGEST_DEFAULT, LARGEST_DEFAULT)
    if longest is not None and window > longest:
        raise SettingsError(f"context_window = {window}: model {model!r} reads at most {longest} tokens")
    if new_tokens >= window:
        raise SettingsError(
            f"max_new_tokens = {new_tokens} leaves no room for a prompt in the context window of model "
            f"{model!r}: wanted fewer than {window}, which is for prompt and action together"
        )
    return window


class Shortened(NamedTuple):
    """A conversation after shortening to the token budget.

    Attributes:
        messages: Messages of the shortened conversation.
        ids: Its prompt ids, the template included.
        notes: Messages that lost tokens, and how many.
    """

    messages: list[Message]
    ids: Sequence[int]
    notes: list[Shortening]


def num_fixed(observation: str, messages: Sequence[Message]) -> int:
    """Return the number of leading messages that are never shortened: the profile and the problem.

    An observation may give this number in an attribute `fixed_messages`. Otherwise it counts the messages before the
    first one written by an agent. At least the first message that is not a system prompt is included.

    Raises:
        ValueError: The observation counts more messages than it has, or fewer than none.
    """
    told = getattr(observation, "fixed_messages", None)
    if told is not None:
        if not 0 <= told <= len(messages):
            raise ValueError(f"fixed_messages = {told} of an observation: wanted 0 to {len(messages)}, its messages")
        return int(told)
    first = next((i for i, message in enumerate(messages) if message["role"] != "system"), len(messages))
    return next((i for i, message in enumerate(messages) if i > first and _is_turn(message)), len(messages))


def _is_turn(message: Message) -> bool:
    """Return True for a message written by an agent, the reader included."""
    return message["role"] == "assistant" or message.get("name", ENVIRONMENT) != ENVIRONMENT


def movable(messages: Sequence[Message], fixed: int) -> list[int]:
    """Return the indices of the messages that may be shortened.

    Args:
        messages: Messages of the conversation.
        fixed: Number of leading messages that stay whole.
    """
    turns = [i for i, message in enumerate(messages) if i >= fixed and _is_turn(message)]
    kept = {len(messages) - 1, *turns[-1:]}
    return [i for i in range(fixed, len(messages)) if i not in kept and messages[i]["role"] != "system"]


def shorten(
    messages: Sequence[Message],
    candidates: Sequence[int],
    *,
    excess: int,
    budget: int,
    ids_of: Callable[[Sequence[Message]], Sequence[int]],
    spans: Callable[[str], Sequence[tuple[int, int]]],
) -> Shortened | None:
    """Shorten the longest candidates to one common length until the whole prompt fits.

    Templates and tokenizers are not additive. So the length is measured again after each cut, and more is removed
    until the prompt fits. If even the ends of the candidates do not fit, one marker replaces all of them.

    Args:
        messages: Messages of the conversation.
        candidates: Indices of the messages that may be shortened.
        excess: Number of prompt tokens beyond the budget, > 0.
        budget: Largest number of prompt tokens.
        ids_of: Maps messages to the ids of the whole prompt, the template included.
        spans: Maps text to the start and end character of each of its tokens.

    Returns:
        The shortened conversation; None if the messages that must stay whole exceed the budget.
    """
    pieces = {i: spans(messages[i]["content"]) for i in candidates}
    total = sum(len(piece) for piece in pieces.values())
    wanted = excess
    while wanted <= total:
        level = _common_length([len(piece) for piece in pieces.values()], wanted)
        shortened, notes = list(messages), []
        for i, piece in pieces.items():
            if len(piece) > level:
                content, removed = _cut(messages[i]["content"], piece, level)
                shortened[i] = {**messages[i], "content": content}
                notes.append(_note(messages, i, removed))
        ids = ids_of(shortened)
        if len(ids) <= budget:
            return Shortened(shortened, ids, notes)
        wanted += len(ids) - budget
    if not candidates:
        return None
    # even the ends of the candidates do not fit: one marker replaces all of them, at the position of the first
    marker = {"role": "user", "content": _marker(total).strip(), "name": ENVIRONMENT}
    first = min(pieces)
    collapsed = [marker if i == first else m for i, m in enumerate(messages) if i == first or i not in pieces]
    ids = ids_of(collapsed)
    if len(ids) > budget:
        return None
    return Shortened(collapsed, ids, [_note(messages, i, len(piece)) for i, piece in pieces.items()])


def _note(messages: Sequence[Message], index: int, removed: int) -> Shortening:
    author = _author(messages[index])
    return Shortening(index, author, removed, sum(_author(message) == author for message in messages[index + 1 :]))


def _common_length(lengths: Sequence[int], wanted: int) -> int:
    """Return the largest length to cut the longest pieces to, so that at least `wanted` tokens are removed.

    >>> _common_length([10, 4, 8], 5)
    6
    """
    low, high = 0, max(lengths)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(0, length - middle) for length in lengths) >= wanted:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(text: str, piece: Sequence[tuple[int, int]], keep: int) -> tuple[str, int]:
    """Keep `keep` tokens of a text, half at each end, around a marker; return it with the number of removed tokens."""
    head, tail = keep - keep // 2, keep // 2
    start = piece[head - 1][1] if head else 0
    end = piece[len(piece) - tail][0] if tail else len(text)
    removed = sum(start <= first and last <= end for first, last in piece)
    return f"{text[:start]}{_marker(removed)}{text[max(start, end) :]}", removed


def _marker(removed: int) -> str:
    return f" [... {removed:,} tokens left out ...] "


def _author(message: Message) -> str:
    """Return the name of a message's author, or its chat role if it has no name."""
    return message.get("name") or message["role"]
