r"""Parser for the tool calls in an action.

| format | example |
|---|---|
| "tags" (Qwen, Hermes) | `<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>`, any number |
| "json" (OpenAI, Llama) | `{"name": "f", "arguments": {"a": 1}}`, also several, and in `{"tool_calls": [...]}` |
| "python" (Gemma, BFCL) | `f(a=1)` or `[f(a=1), g("x")]`, read as literals, never evaluated |

Tags may stand anywhere. JSON and Python stand in a code fence, or from the start of a line to the end of the text. In
JSON the arguments may be a string of JSON, and be called "parameters".

Text before `</think>` is reasoning and is not searched. A last line that routes (`-> a_0` or `{"act": [...]}`, see
`marft_envs.dependency.routed`) is not part of a call. Text without a call is valid and has no calls. Text that begins
like a call but is none is an error, told to the agent. The first format that finds something decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from marft_envs.tasks.tools import json_calls, python_calls
from marft_envs.tasks.tools.call import HOW, Call, CallError

__all__ = ["FORMATS", "MAX_CALLS", "MAX_CHARS", "Call", "CallError", "read_calls"]

MAX_CHARS = 65536
MAX_CALLS = 32

_THOUGHT = re.compile(r".*</think>", re.DOTALL)
_ROUTE = re.compile(r"""^[ \t]*+(?:->[\w, \t]*+|\{[ \t]*+"act"[^\n]*\})\s*+\Z""", re.MULTILINE)
_TAG = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FENCE = re.compile(r"^```[ \t]*(\w*)[^\n]*\n(.*?)(?:^```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_JSON_START = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)


def read_calls(text: str, formats: Sequence[str] = ("tags", "json", "python")) -> list[Call]:
    r"""Find the calls in an action.

    Args:
        text: The whole action.
        formats: Formats to look for, in this order.

    Returns:
        The calls in order; empty if the text holds none.

    Raises:
        CallError: A call cannot be read, or there are too many, too long or too deep ones.

    Examples:
        >>> read_calls("I look it up.\nget_order(id=7)")
        [Call(name='get_order', arguments={'id': 7}, positional=())]
    """
    said = _THOUGHT.sub("", text, count=1) if "</think>" in text else text
    if len(said) > MAX_CHARS:
        raise CallError(f"found {len(said)} characters; say at most {MAX_CHARS}")
    said = _ROUTE.sub("", said)
    for name in formats:
        if calls := FORMATS[name](said):
            if len(calls) > MAX_CALLS:
                raise CallError(f"{len(calls)} calls at once; make at most {MAX_CALLS}")
            return calls
    return []


def _read_tags(text: str) -> list[Call]:
    if text.count("<tool_call>") != text.count("</tool_call>"):
        raise CallError(f"a <tool_call> is not closed, or not opened; {HOW}")
    return [call for body in _TAG.findall(text) for call in json_calls.read_json_call(body)]


def _read_json(text: str) -> list[Call]:
    blocks = _blocks(text, ("", "json", "tool_call", "tool_calls"), _JSON_START)
    looking = (block for block in blocks if json_calls.LOOKS_LIKE_CALL.search(block))
    return [call for block in looking for call in json_calls.read_json_sequence(block)]


def _read_python(text: str) -> list[Call]:
    blocks = _blocks(text, ("", "python", "py", "tool_code", "tool_call"), python_calls.LOOKS_LIKE_CALL)
    looking = (block for block in blocks if python_calls.LOOKS_LIKE_CALL.match(block))
    return [call for block in looking for call in python_calls.read_python_calls(block)]


FORMATS: Mapping[str, Callable[[str], list[Call]]] = {
    "tags": _read_tags,
    "json": _read_json,
    "python": _read_python,
}


def _blocks(text: str, languages: Sequence[str], start: re.Pattern[str]) -> Iterator[str]:
    """Yield the content of code fences in these languages; without fences the end of the text, from `start` on."""
    if "```" in text:
        yield from (body.strip() for language, body in _FENCE.findall(text) if language.lower() in languages)
    elif found := start.search(text):
        yield text[found.start() :].strip()
