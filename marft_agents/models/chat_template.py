"""Encode observations as prompt token ids with the model's own chat template.

An observation is text. It may have an attribute `messages`: a sequence of mappings with `role`, `content` and an
optional author `name`. That chat form is used unchanged; otherwise the text is one user message. So any environment
with text observations works, and no environment needs special support here.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from functools import lru_cache
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
from marft_agents.models.model_error import ModelError
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


@lru_cache(maxsize=64)  # asked for every prompt
def takes_system_role(tokenizer: Any, template: str) -> bool:
    """Return True if the chat template shows a system message; those of Gemma and Mistral refuse or leave out one.

    Args:
        tokenizer: A transformers tokenizer.
        template: Its chat template.

    Warns:
        UserWarning: It shows none; said once for each model.
    """
    from jinja2 import TemplateError

    mark = "profile"
    turns = [{"role": "system", "content": mark}, {"role": "user", "content": "question"}]
    try:
        if mark in tokenizer.apply_chat_template(turns, chat_template=template, tokenize=False):
            return True
    except TemplateError:
        pass
    _say_so(tokenizer.name_or_path or "the model")
    return False


@lru_cache(maxsize=64)  # once for each model, however many tokenizers of it are loaded
def _say_so(model: str) -> None:
    warnings.warn(
        f"the chat template of {model} takes no system message: each profile is put before the first user message",
        stacklevel=3,
    )


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


def turns_of(tokenizer: Any, messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return messages in the form that a tokenizer's chat template takes; no text in them spells a special token.

    Args:
        tokenizer: A transformers tokenizer with a chat template.
        messages: Chat form of an observation.
    """
    if any(message["role"] == "system" for message in messages) and not takes_system_role(
        tokenizer, tokenizer.get_chat_template()
    ):  # merged with the user message behind it
        messages = [{**turn, "role": "user"} if turn["role"] == "system" else turn for turn in messages]
    symbols = control_symbols(tokenizer)
    return [turn | {"content": disarm(turn["content"], symbols)} for turn in merge_turns(messages)]


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
        ModelError: The chat template refuses the conversation.
    """
    from jinja2 import TemplateError

    messages = messages_of(observation)

    def ids_of(conversation: Sequence[Message]) -> list[int]:
        turns = turns_of(tokenizer, conversation)
        try:
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except TemplateError as error:
            roles = ", ".join(turn["role"] for turn in turns)
            raise ModelError(
                f"the chat template of {tokenizer.name_or_path or 'the model'} refuses the messages of {roles}: {error}"
                "; play with a model whose template takes them"
            ) from error
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


def end_token_ids(tokenizer: Any, *configs: Any) -> frozenset[int]:
    """Return the ids that end an action: those of the tokenizer, the chat template and the model's configurations.

    None of them is complete in all families: Phi-3's template ends a turn with a token that is not the tokenizer's, and
    GLM-4 ends one with the token that begins the next, which its configuration alone says.

    Args:
        tokenizer: A transformers tokenizer with a chat template.
        *configs: Configurations with an `eos_token_id`: a number, several, or None. Ordinary tokens do not count: the
            default of a configuration may be one.
    """
    marks = {*tokenizer.added_tokens_decoder, *tokenizer.all_special_ids}
    named = [getattr(config, "eos_token_id", None) for config in configs]
    ids = {id for ids in named for id in (ids if isinstance(ids, Sequence) else [ids]) if id in marks}
    closing = next((id for id in _ids_after_answer(tokenizer) if id in marks), None)
    return frozenset(id for id in (*ids, closing, tokenizer.eos_token_id) if id is not None)


def end_of_turn_id(tokenizer: Any, ends: Collection[int] | None = None) -> int:
    """Return the end token that the chat template writes after an answer; the end-of-sequence token if it writes none.

    Args:
        tokenizer: A transformers tokenizer with a chat template.
        ends: Tokens that end an action; None: those of `end_token_ids` without configurations.
    """
    ends = end_token_ids(tokenizer) if ends is None else ends
    ids = [*_ids_after_answer(tokenizer), *_ids_after_answer(tokenizer, {"role": "user", "content": "question"})]
    return int(next((id for id in ids if id in ends), tokenizer.eos_token_id))


def _ids_after_answer(tokenizer: Any, *following: dict[str, str]) -> list[int]:
    """Return the tokens that the chat template writes after an answer, up to the end of the conversation."""
    mark = "answer"
    turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": mark}, *following]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    ids: list[int] = tokenizer(text.rpartition(mark)[2], add_special_tokens=False)["input_ids"]
    return ids
