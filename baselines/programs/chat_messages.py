"""Messages of the OpenAI API as the chat form that our prompts are encoded from, and answers as tool calls.

Chat templates differ in whether and how they show tools. So tools, calls and results are text here, in the notation of
Hermes and Qwen, which our tool worlds use too: any base reads them, and what a program sends is what is encoded.
An answer of this episode that comes back as an assistant message keeps the very text that was sampled.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baselines.gateway.api_errors import refuse
from marft_envs.tasks.tools.calls import CallError, read_calls

TEXT_PARTS = ("text", "input_text", "output_text")
_TOOLS = """# Tools

You may call functions. Their signatures are within <tools></tools>:
<tools>
{tools}
</tools>
For each call write a JSON object with name and arguments within <tool_call></tool_call>:
<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>"""


class Chat(str):
    """An observation: its text, with the chat form in `messages`."""

    messages: tuple[Mapping[str, str], ...]

    @classmethod
    def of(cls, messages: Sequence[Mapping[str, str]]) -> Chat:
        """Make an observation of messages with role and content, and perhaps a name."""
        texts = [f"[{one['name'] if 'name' in one else _shown(one['role'])}]\n{one['content']}" for one in messages]
        chat = cls("\n\n".join(texts))
        chat.messages = tuple(messages)
        return chat


def _shown(role: str) -> str:
    return "environment" if role == "user" else role


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool in an answer.

    Attributes:
        id: Its `tool_call_id` in the API.
        name: Name of the tool.
        arguments: Its arguments as JSON.
    """

    id: str
    name: str
    arguments: str

    def to_dict(self) -> dict[str, Any]:
        """Return the form of the API."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True)
class Tools:
    """Tools that a request offers.

    Attributes:
        functions: Function by name, with description and parameters, as JSON.
        choice: "auto", "none", "required", or the name of the one that has to be called.
        parallel: False if one call at most is wanted.
    """

    functions: Mapping[str, Mapping[str, Any]]
    choice: str = "auto"
    parallel: bool = True

    @property
    def text(self) -> str:
        """Text for the system prompt; empty where nothing may be called."""
        if not self.functions or self.choice == "none":
            return ""
        one = self.choice not in ("auto", "required")
        shown = [self.functions[self.choice]] if one else self.functions.values()
        lines = [json.dumps({"type": "function", "function": tool}, ensure_ascii=False) for tool in shown]
        must = f"\n\nYou must call {self.choice} now." if one else ""
        must = "\n\nYou must call a function now." if self.choice == "required" else must
        return _TOOLS.format(tools="\n".join(lines)) + must

    def split(self, text: str) -> tuple[str | None, list[ToolCall]]:
        """Return the content of an answer and its calls; one that is no call of an offered tool is content.

        Examples:
            >>> _, [call] = Tools({"add": {}}).split('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
            >>> call.name, call.arguments
            ('add', '{"a": 1}')
        """
        if not self.text:
            return text, []
        try:
            calls = read_calls(text, ("tags", "json"))
        except CallError:
            return text, []
        if not calls or any(call.name not in self.functions or call.positional for call in calls):
            return text, []
        found = [
            ToolCall(f"call_{secrets.token_hex(12)}", call.name, json.dumps(dict(call.arguments), ensure_ascii=False))
            for call in (calls if self.parallel else calls[:1])
        ]
        return text.partition("<tool_call>")[0].strip() or None, found


def read_tools(body: Mapping[str, Any]) -> Tools:
    """Return the tools of a request, of chat completions or of responses.

    Raises:
        ApiError: A tool is none that a model can call, or the choice is of none.
    """
    functions: dict[str, Mapping[str, Any]] = {}
    for place, tool in enumerate(_list(body, "tools")):
        where = f"tools[{place}]"
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if kind != "function":
            refuse(where, f"{where}: found type {kind!r}, wanted function: this server runs no tools of its own")
        own = tool.get("function", tool)
        if not isinstance(own, Mapping) or not isinstance(own.get("name"), str):
            refuse(f"{where}.function", f"{where}.function: wanted an object with a name")
        kept = ("name", "description", "parameters")
        functions[own["name"]] = {key: own[key] for key in kept if own.get(key) is not None}
    choice = body.get("tool_choice") or "auto"
    if isinstance(choice, Mapping):
        choice = (choice.get("function") or choice).get("name")
        if choice not in functions:
            refuse("tool_choice", f"tool_choice: found {choice!r}, wanted one of {', '.join(functions) or 'no tools'}")
    elif choice not in ("auto", "none", "required"):
        refuse("tool_choice", f"tool_choice: found {choice!r:.80}, wanted auto, none, required or a function")
    return Tools(functions, choice, body.get("parallel_tool_calls") is not False)


def read_messages(body: Mapping[str, Any], tools: Tools, said: Mapping[str, str]) -> Chat:
    """Return the prompt of a request of chat completions.

    Args:
        body: Body of the request.
        tools: Tools that it may call.
        said: Sampled texts of this episode by the ids of their tool calls.

    Raises:
        ApiError: A message is malformed, or holds something else than text.
    """
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        refuse("messages", "messages: wanted a list with at least one message")
    messages = [_message(f"messages[{place}]", one, said) for place, one in enumerate(given)]
    return Chat.of(with_tools(messages, tools))


def with_tools(messages: list[dict[str, str]], tools: Tools) -> list[dict[str, str]]:
    """Return messages whose system message ends with the tools."""
    if not tools.text:
        return messages
    if messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{tools.text}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": tools.text}, *messages]


def _message(where: str, message: Any, said: Mapping[str, str]) -> dict[str, str]:
    role = message.get("role") if isinstance(message, Mapping) else None
    if role in ("system", "developer"):
        return {"role": "system", "content": text_of(f"{where}.content", message.get("content"))}
    if role == "user":
        name = {"name": message["name"]} if isinstance(message.get("name"), str) and message["name"] else {}
        return {"role": "user", "content": text_of(f"{where}.content", message.get("content")), **name}
    if role == "tool":
        return tool_result(text_of(f"{where}.content", message.get("content")))
    if role != "assistant":
        refuse(where, f"{where}: found role {role!r}, wanted system, developer, user, assistant or tool")
    content = message.get("content")
    text = "" if content is None else text_of(f"{where}.content", content)
    calls = []
    for place, call in enumerate(_list(message, "tool_calls")):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            refuse(f"{where}.tool_calls[{place}]", f"{where}.tool_calls[{place}]: wanted a call of a function")
        calls.append((call.get("id"), function["name"], function.get("arguments")))
    return assistant(text, calls, said)


def assistant(text: str, calls: Sequence[tuple[Any, str, Any]], said: Mapping[str, str]) -> dict[str, str]:
    """Return an assistant message with calls (id, name, arguments), as it was sampled where that is known."""
    own = next((said[id] for id, _, _ in calls if id in said), None)
    if own is not None:
        return {"role": "assistant", "content": own}
    written = [
        f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {given}}}\n</tool_call>' for _, name, given in calls
    ]
    return {"role": "assistant", "content": "\n".join([text, *written] if text else written)}


def tool_result(text: str) -> dict[str, str]:
    """Return the message with the result of a tool."""
    return {"role": "user", "content": f"<tool_response>\n{text}\n</tool_response>"}


def text_of(where: str, content: Any) -> str:
    """Return the text of a content: a string, or parts of text.

    Raises:
        ApiError: It holds something else, like an image.
    """
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list):
        refuse(where, f"{where}: wanted text, or a list of parts of type text")
    texts = []
    for part in parts:
        kind, text = (part.get("type"), part.get("text")) if isinstance(part, Mapping) else (None, None)
        if kind not in TEXT_PARTS or not isinstance(text, str):
            refuse(where, f"{where}: found a part of type {kind!r}, wanted text: the agents read nothing else")
        texts.append(text)
    joined = "\n".join(texts)
    if any(0xD800 <= ord(character) < 0xE000 for character in joined):
        refuse(where, f"{where}: found a lone surrogate, wanted text that UTF-8 can encode")
    return joined


def _list(body: Mapping[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, list):
        refuse(name, f"{name}: found {type(value).__name__}, wanted a list")
    return value or []
