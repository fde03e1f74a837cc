"""Messages of generative-AI spans as chat messages, in the forms that tracers record.

| message | recorded by |
|---|---|
| role and parts: text, tool_call, tool_call_response, reasoning, ... | the GenAI conventions 1.41 |
| role, content (text, null or parts), tool_calls or function_call | tracers of OpenAI's chat completions |
| role, content of parts: tool_use, tool_result, thinking | tracers of Anthropic's messages |
| items without role: function_call, function_call_output, reasoning | tracers of OpenAI's responses |
| choices, each with its message | responses of OpenAI as they are |

The messages are a JSON text in any layout, structured attributes, or a text, which is one message. Calls of tools are
written in the notation of our tool worlds, `<tool_call>{...}</tool_call>`, and their results as text. Reasoning is left
out: it is part of no action.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

_ROLES = {
    "developer": "system", "tool": "user", "function": "user", "human": "user", "model": "assistant", "ai": "assistant",
}  # fmt: skip  # of roles that chat templates do not know
_TEXTS = ("text", "input_text", "output_text", "refusal")
_CALLS = ("tool_call", "tool_use", "function_call", "tool-call")
_RESULTS = ("tool_call_response", "tool_result", "function_call_output", "tool-result")
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")
_PARTS = (*_TEXTS, *_CALLS, *_RESULTS, *_THOUGHTS)
_CONTENTS = ("parts", "content", "tool_calls", "function_call")
_CUT = re.compile(
    r"""\s*(?:\[\s*)?\{(?=.*["'](?:role|parts|content)["']\s*:)""", re.DOTALL
)  # the beginning of messages


class UnusableError(ValueError):
    """Messages that are no chat messages; the text is the reason, equal for equal faults."""


class Message(NamedTuple):
    """One message.

    Attributes:
        role: Role that chat templates know.
        texts: Texts of its parts in their order, calls and results of tools in our notation.
        speaks: True if a part is a text, not a call.
        finished: True if it names the reason why the model stopped, so it is a choice of its own.
        name: Author; empty if none is recorded.
    """

    role: str
    texts: tuple[str, ...]
    speaks: bool
    finished: bool
    name: str

    @property
    def content(self) -> str:
        """The texts, one below the other."""
        return "\n".join(self.texts)

    def to_dict(self) -> dict[str, str]:
        """Return the message as chat templates take it."""
        author = {"name": self.name} if self.name else {}
        return {"role": self.role, "content": self.content, **author}


def read_messages(name: str, value: Any, role: str) -> list[Message]:
    """Read the messages of an attribute.

    Args:
        name: Name of the attribute, for the reason.
        value: Value of the attribute.
        role: Role of messages without one.

    Raises:
        UnusableError: It holds other things than messages, or parts without a text form.
    """
    decoded = _decoded(name, value)
    if isinstance(decoded, str):
        return [Message(_ROLES.get(role, role), (decoded,), True, False, "")]
    if not _are_messages(decoded):
        raise UnusableError(f"{name} holds no messages with role and parts")
    return [_message(name, one, role) for one in decoded]


def read_parts(name: str, value: Any) -> str:
    """Return the text of parts without a message, such as those of system instructions.

    Raises:
        UnusableError: As in `read_messages`.
    """
    decoded = _decoded(name, value)
    if isinstance(decoded, list) and any("role" in one for one in decoded):
        return joined([_message(name, one, "system") for one in decoded])
    return "\n".join(text for _, text in _pieces(name, decoded) if text)


def first_choice(messages: Sequence[Message], choices: int | None) -> tuple[str, int]:
    """Return the text of a model's first answer, and the number of further answers to the same prompt.

    Each message of a response is a choice by the conventions, and has its finish reason. Some tracers split one answer
    into several messages instead. At most one of them has a text then.

    Args:
        messages: Messages of the assistant.
        choices: Number of answers that were asked for; None if it is not recorded.
    """
    speakers = sum(message.speaks for message in messages)
    are_choices = speakers > 1 if choices is None else choices > 1
    if not are_choices and sum(message.finished for message in messages) < 2:
        return joined(messages), 0
    said = [message.content for message in messages]
    return next((text for text in said if text), ""), len(said) - 1


def joined(messages: Sequence[Message]) -> str:
    """Return the texts of all messages."""
    return "\n".join(message.content for message in messages if message.texts)


# ------------------------------------------------------------------ messages


def _decoded(name: str, value: Any) -> Any:
    """Return the list of messages that a text or a structured attribute holds, else the text."""
    if isinstance(value, list):
        messages: list[Any] = []
        for one in value:  # an attribute may be a list of texts, each with messages
            messages += _listed(_decoded(name, one) if isinstance(one, str) else one)
        return messages
    if not isinstance(value, str):
        return _listed(value)
    try:
        decoded = json.loads(value)
    except (ValueError, RecursionError) as error:
        if _CUT.match(value):
            raise UnusableError(f"{name} is no JSON: was it cut by a limit of the tracer?") from error
        return value
    if isinstance(decoded, str):  # encoded twice
        return _decoded(name, decoded)
    listed = _listed(decoded)
    return listed if _are_messages(listed) else value


def _listed(decoded: Any) -> Any:
    """Return the list of messages in its several wrappings."""
    if not isinstance(decoded, Mapping):
        return decoded
    for key in ("messages", "choices"):
        if isinstance(decoded.get(key), list):
            return decoded[key]
    return [decoded]


def _are_messages(decoded: Any) -> bool:
    return isinstance(decoded, list) and all(map(_is_message, decoded))


def _is_message(one: Any) -> bool:
    if not isinstance(one, Mapping):
        return False
    has_role = isinstance(one.get("role"), str) and any(key in one for key in _CONTENTS)
    is_choice = isinstance(one.get("message"), Mapping)
    return has_role or is_choice or isinstance(one.get("parts"), list) or one.get("type") in _PARTS


def _message(name: str, one: Mapping[str, Any], role: str) -> Message:
    if isinstance(one.get("message"), Mapping):
        one = {**one, **one["message"]}
    author: Any = ""
    if (kind := one.get("type")) in _PARTS and "role" not in one:  # an item of its own
        pieces = list(_pieces(name, one))
        role = role if kind in _TEXTS else "user" if kind in _RESULTS else "assistant"
    else:
        role, author = one["role"] if isinstance(one.get("role"), str) else role, one.get("name")
        pieces = list(_pieces(name, _first(one, "parts", "content")))
        if not any(is_call for is_call, _ in pieces):
            pieces += [(True, _call(name, call)) for call in _calls(one)]
    return Message(
        role=_ROLES.get(role, role),
        texts=tuple(text for _, text in pieces if text),
        speaks=any(text and not is_call for is_call, text in pieces),
        finished=bool(one.get("finish_reason")),
        name=author if isinstance(author, str) else "",
    )


def _pieces(name: str, parts: Any) -> Iterator[tuple[bool, str]]:
    """Yield (whether it is a call, text) of each part that has a text form."""
    for part in parts if isinstance(parts, list) else [parts]:
        if part is None or isinstance(part, str):
            yield False, part or ""
            continue
        kind = _kind(part)
        if kind in _TEXTS:
            yield False, str(_first(part, "content", "text", "refusal"))
        elif kind in _CALLS:
            yield True, _call(name, part)
        elif kind in _RESULTS:
            yield False, _result(_first(part, "response", "result", "content", "output"))
        elif kind not in _THOUGHTS:
            raise UnusableError(f"{name} has a part of type {kind!r}, wanted text, tool_call or tool_call_response")


def _kind(part: Any) -> str | None:
    if not isinstance(part, Mapping):
        return type(part).__name__
    if part.get("thought") is True:  # Gemini's mark of a text that is reasoning
        return "reasoning"
    kind: str | None = part.get("type", "text" if "text" in part or "content" in part else None)
    return kind


def _first(part: Mapping[str, Any], *keys: str) -> Any:
    """Return the first value that there is, else an empty text."""
    for key in keys:
        if part.get(key) is not None:
            return part[key]
    return ""


def _result(result: Any) -> str:
    parts = result if isinstance(result, list) else [result]
    if all(isinstance(part, Mapping) and part.get("type") in _TEXTS for part in parts):
        return "\n".join(str(_first(part, "content", "text")) for part in parts)
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _calls(one: Mapping[str, Any]) -> list[Any]:
    """Return the calls beside the content of a message, in OpenAI's present form or its former one."""
    calls = _first(one, "tool_calls", "function_call") or []
    if isinstance(calls, str):
        with suppress(ValueError, RecursionError):
            calls = json.loads(calls)
    return calls if isinstance(calls, list) else [calls]


def _call(name: str, call: Any) -> str:
    """Return a call in our notation; its function is nested in OpenAI's form."""
    about = call.get("function", call) if isinstance(call, Mapping) else {}
    tool = _first(about, "name", "toolName") if isinstance(about, Mapping) else ""
    if not isinstance(tool, str) or not tool:
        raise UnusableError(f"{name} has a tool call without the name of the tool")
    arguments = _first(about, "arguments", "input", "args")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments) if arguments.strip() else {}
    noted = {"name": tool, "arguments": {} if arguments is None else arguments}
    return f"<tool_call>{json.dumps(noted, ensure_ascii=False)}</tool_call>"
