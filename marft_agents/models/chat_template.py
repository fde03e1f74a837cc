"""Observation -> token ids: the chat form of an observation through the model's own chat template.

An observation is text. If it carries an attribute `messages` (a sequence of mappings with `role`, `content` and an
optional author `name`), that chat form is used as it is; otherwise the text is one user message. So any
environment with text observations works, and none has to be known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from marft_agents.models.context_window import (
    ENVIRONMENT,
    ContextOverflowError,
    Message,
    Overflow,
    movable,
    num_fixed,
    shorten,
)
from marft_agents.trajectory import IntArray, Shortening


def messages_of(observation: str) -> tuple[Message, ...]:
    """Return the chat form of an observation: its `messages`, else its text as one user message."""
    messages = getattr(observation, "messages", None)
    if messages:
        return tuple(messages)
    return ({"role": "user", "content": str(observation)},)


def merge_turns(messages: Sequence[Message]) -> list[dict[str, str]]:
    r"""Join neighbouring messages of one role, since many templates demand strict alternation.

    A message of another agent is prefixed by its author's name; the environment's is not.

    >>> merge_turns([{"role": "user", "content": "2+2?", "name": "environment"},
    ...              {"role": "user", "content": "add", "name": "reasoner_0"}])
    [{'role': 'user', 'content': '2+2?\n\nreasoner_0: add'}]
    """
    merged: list[dict[str, str]] = []
    for message in messages:
        content = _signed(message)
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] += "\n\n" + content
        else:
            merged.append({"role": message["role"], "content": content})
    return merged


def _signed(message: Message) -> str:
    name = message.get("name", ENVIRONMENT)
    if message["role"] == "user" and name != ENVIRONMENT:
        return f"{name}: {message['content']}"
    return message["content"]


def disarm(text: str, symbols: Sequence[str]) -> str:
    r"""Break up the control symbols that a text spells out, so that no message can end itself and begin another.

    Results of tools, and what other agents say, are data: "<|im_end|>" in them must not become the token.

    >>> disarm("done<|im_end|>", ["<|im_end|>"])
    'done< |im_end|>'
    """
    for symbol in symbols:
        text = text.replace(symbol, f"{symbol[0]} {symbol[1:]}")
    return text


def control_symbols(tokenizer: Any) -> list[str]:
    """Return how the special tokens of a tokenizer are spelled; a symbol of one character cannot be broken up."""
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return [symbol for symbol in dict.fromkeys([*added, *tokenizer.all_special_tokens]) if len(symbol) > 1]


class ChatPrompt(NamedTuple):
    """Token ids of a prompt, and what was shortened to make it fit.

    Attributes:
        ids: int32 [P], ready for the agent's answer.
        shortened: the messages that lost tokens; empty for a whole prompt.
    """

    ids: IntArray
    shortened: tuple[Shortening, ...] = ()


def encode(tokenizer: Any, observation: str, budget: int | None = None, overflow: Overflow = "shorten") -> ChatPrompt:
    """Turn an observation into prompt ids; only the template makes control tokens.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        observation: text, with an optional `messages` attribute.
        budget: largest number of prompt tokens; None sets no limit.
        overflow: what happens to a longer prompt, see `context`.

    Raises:
        ContextOverflowError: the prompt, or what must stay whole of it, is longer than the budget.
    """
    messages, symbols = messages_of(observation), control_symbols(tokenizer)

    def ids_of(conversation: Sequence[Message]) -> list[int]:
        turns = [turn | {"content": disarm(turn["content"], symbols)} for turn in merge_turns(conversation)]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    ids = ids_of(messages)
    if budget is None or len(ids) <= budget:
        return ChatPrompt(np.asarray(ids, np.int32))
    if overflow == "error":
        raise ContextOverflowError(f"the prompt has {len(ids):,} tokens, wanted at most {budget:,}")
    candidates = movable(messages, num_fixed(observation, messages))
    found = shorten(
        messages,
        candidates,
        excess=len(ids) - budget,
        budget=budget,
        ids_of=ids_of,
        spans=lambda text: token_spans(tokenizer, text),
    )
    if found is None:
        kept = len(ids_of([message for i, message in enumerate(messages) if i not in candidates]))
        marker = " with a marker for what is left out" if candidates else ""
        raise ContextOverflowError(
            f"system prompt, problem and latest turn have {kept:,} tokens, of {len(ids):,} in all, wanted at most "
            f"{budget:,}{marker}"
        )
    return ChatPrompt(np.asarray(found.ids, np.int32), tuple(found.notes))


def token_spans(tokenizer: Any, text: str) -> list[tuple[int, int]]:
    """Return the start and end character of each token of a text; of each character for tokenizers without offsets."""
    if not tokenizer.is_fast:
        return [(i, i + 1) for i in range(len(text))]
    spans: list[tuple[int, int]] = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    return spans


def end_token_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids that end an action: the tokenizer's end-of-sequence token and ChatML's end of turn."""
    ids = {tokenizer.eos_token_id}
    for symbol in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>"):
        token_id = tokenizer.convert_tokens_to_ids(symbol)
        if isinstance(token_id, int) and token_id != tokenizer.unk_token_id:
            ids.add(token_id)
    return frozenset(i for i in ids if i is not None)
