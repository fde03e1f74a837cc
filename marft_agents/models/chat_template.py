"""Encode observations as prompt token ids with the model's own chat template.

An observation is text. It may have an attribute `messages`: a sequence of mappings with `role`, `content` and an
optional author `name`. That chat form is used unchanged; otherwise the text is one user message. So any environment
with text observations works, and no environment needs special support here.
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
    r"""Merge adjacent messages of one role, since many chat templates require strict alternation.

    A message of another agent is prefixed with its author's name; a message of the environment is not.

    >>> merge_turns([{"role": "user", "content": "2+2?", "name": "environment"},
    ...              {"role": "user", "content": "add", "name": "reasoner_0"}])
    [{'role': 'user', 'content': '2+2?\n\nreasoner_0: add'}]
    """
    merged: list[dict[str, str]] = []
    for message in messages:
        content, name = message["content"], message.get("name", ENVIRONMENT)
        if message["role"] == "user" and name != ENVIRONMENT:
            content = f"{name}: {content}"
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] += "\n\n" + content
        else:
            merged.append({"role": message["role"], "content": content})
    return merged


def disarm(text: str, symbols: Sequence[str]) -> str:
    r"""Break up special tokens spelled out in a text, so that a message cannot end itself and start another.

    Tool results and messages of other agents are data: "<|im_end|>" in them must not become the token.

    >>> disarm("done<|im_end|>", ["<|im_end|>"])
    'done< |im_end|>'
    """
    for symbol in symbols:
        text = text.replace(symbol, f"{symbol[0]} {symbol[1:]}")
    return text


def control_symbols(tokenizer: Any) -> list[str]:
    """Return the spellings of a tokenizer's special tokens.

    One-character tokens are left out, since `disarm` cannot break them up.
    """
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return [symbol for symbol in dict.fromkeys([*added, *tokenizer.all_special_tokens]) if len(symbol) > 1]


class ChatPrompt(NamedTuple):
    """Token ids of a prompt, with notes on messages shortened to fit.

    Attributes:
        ids: Prompt tokens up to the start of the agent's answer, int32 [P].
        shortened: Messages that lost tokens; empty for a whole prompt.
    """

    ids: IntArray
    shortened: tuple[Shortening, ...] = ()


def encode(tokenizer: Any, observation: str, budget: int | None = None, overflow: Overflow = "shorten") -> ChatPrompt:
    """Encode an observation as prompt ids; only the template creates control tokens.

    Args:
        tokenizer: A transformers tokenizer with a chat template.
        observation: Text, with an optional `messages` attribute.
        budget: Largest number of prompt tokens; None sets no limit.
        overflow: Treatment of a longer prompt, "shorten" or "error"; see `context_window`.

    Raises:
        ContextOverflowError: The prompt, or the part of it that must stay whole, is longer than the budget.
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


def end_of_turn_id(tokenizer: Any) -> int:
    """Return the end token that the chat template writes after an answer; the end-of-sequence token if it writes none.

    Args:
        tokenizer: A transformers tokenizer with a chat template.
    """
    mark = "answer"
    turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": mark}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    after = tokenizer(text.rpartition(mark)[2], add_special_tokens=False)["input_ids"]
    ends = end_token_ids(tokenizer)
    return int(next((token for token in after if token in ends), tokenizer.eos_token_id))


def end_token_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids that end an action: the end-of-sequence token and the end-of-turn tokens of common templates."""
    ids = {tokenizer.eos_token_id}
    for symbol in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>"):
        token_id = tokenizer.convert_tokens_to_ids(symbol)
        if isinstance(token_id, int) and token_id != tokenizer.unk_token_id:
            ids.add(token_id)
    return frozenset(i for i in ids if i is not None)
