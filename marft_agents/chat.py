"""Observation -> token ids: the chat form of an observation through the model's own chat template.

An observation is text. If it carries an attribute `messages` (a sequence of mappings with `role`, `content` and an
optional author `name`), that chat form is used as it is; otherwise the text is one user message. So any
environment with text observations works, and none has to be known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marft_agents.records import IntArray

Message = Mapping[str, str]


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
    name = message.get("name", "environment")
    if message["role"] == "user" and name != "environment":
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


def encode(tokenizer: Any, observation: str, max_tokens: int | None = None) -> IntArray:
    """Turn an observation into prompt ids, ready for the agent's answer; only the template makes control tokens.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        observation: text, with an optional `messages` attribute.
        max_tokens: keep at most this many tokens, dropping from the left; None keeps all.

    Returns:
        int32 [P].
    """
    symbols = control_symbols(tokenizer)
    messages = [
        {"role": message["role"], "content": disarm(message["content"], symbols)}
        for message in merge_turns(messages_of(observation))
    ]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return np.asarray(ids if max_tokens is None else ids[-max_tokens:], np.int32)


def end_token_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids that end an action: the tokenizer's end-of-sequence token and ChatML's end of turn."""
    ids = {tokenizer.eos_token_id}
    for symbol in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>"):
        token_id = tokenizer.convert_tokens_to_ids(symbol)
        if isinstance(token_id, int) and token_id != tokenizer.unk_token_id:
            ids.add(token_id)
    return frozenset(i for i in ids if i is not None)
