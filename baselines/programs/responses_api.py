"""`/v1/responses` for the agents of a team, as far as it maps onto chat; the default of the OpenAI Agents SDK."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from baselines.gateway.api_errors import ApiError, refuse, whole
from baselines.programs.chat_api import UNUSED, agent_of, refuse_unknown, sampling_in, usage_of
from baselines.programs.chat_messages import Chat, assistant, read_tools, text_of, tool_result, with_tools
from baselines.programs.recorded_episode import Given, Wanted

READ = (
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens", "stream"),
    *("temperature", "top_p", "previous_response_id", "include", "reasoning", "truncation"),
)
SAME_AS_NONE: Mapping[str, Any] = {
    "background": False,
    "text": {"format": {"type": "text"}},
    "top_logprobs": 0,
    "max_tool_calls": None,
}


def read_response(
    body: Mapping[str, Any],
    agents: Sequence[str],
    said: Mapping[str, str],
    chats: Mapping[str, list[dict[str, str]]],
    *,
    ignore: bool,
) -> tuple[Wanted, list[dict[str, str]]]:
    """Return what a request wants, and its messages without instructions and tools.

    Args:
        body: Body of the request.
        agents: Agents of the team.
        said: Sampled texts of this episode by the ids of their tool calls.
        chats: Messages up to each earlier response, by its id.
        ignore: True passes over sampling parameters.

    Raises:
        ApiError: It asks for something that cannot be done; names the parameter.
    """
    agent = agent_of(body, agents)
    text = body.get("text")
    if isinstance(text, Mapping):  # `verbosity` changes nothing here
        body = {**body, "text": {"format": text.get("format") or {"type": "text"}}}
    refuse_unknown(body, (*READ, *UNUSED), SAME_AS_NONE, ignore=ignore)
    named: set[str] = set()
    messages: list[dict[str, str]] = []
    if (before := body.get("previous_response_id")) is not None:
        if before not in chats:
            refuse("previous_response_id", f"previous_response_id: found {before!r:.80}, wanted one of this episode")
        messages += chats[before]
        named.add(before)
    messages += _messages(body.get("input"), said, named)
    if not messages:
        refuse("input", "input: wanted a text, or a list with at least one item")
    tools, instructions = read_tools(body), body.get("instructions")
    system = [{"role": "system", "content": text_of("instructions", instructions)}] if instructions else []
    prompt = Chat.of(with_tools([*system, *messages], tools))
    limit = whole(body, "max_output_tokens")
    return Wanted(agent, prompt, tools, limit, (), sampling_in(body), frozenset(named)), messages


def _messages(given: Any, said: Mapping[str, str], named: set[str]) -> list[dict[str, str]]:
    if isinstance(given, str):
        return [{"role": "user", "content": text_of("input", given)}]
    if not isinstance(given, list):
        refuse("input", "input: wanted a text, or a list of items")
    messages: list[dict[str, str]] = []
    for place, item in enumerate(given):
        where = f"input[{place}]"
        kind = item.get("type", "message") if isinstance(item, Mapping) else None
        if kind == "reasoning":
            continue
        if kind in ("function_call", "function_call_output"):
            call = item.get("call_id")
            if not isinstance(call, str):
                refuse(f"{where}.call_id", f"{where}.call_id: wanted a text")
            named.add(call)
        if kind == "function_call":
            one = assistant("", [(call, str(item.get("name")), item.get("arguments"))], said)
            if one not in messages[-1:]:  # calls of one answer are several items
                messages.append(one)
        elif kind == "function_call_output":
            messages.append(tool_result(text_of(f"{where}.output", item.get("output"))))
        elif kind == "message" and item.get("role") in ("system", "developer", "user", "assistant"):
            role = {"developer": "system"}.get(item["role"], item["role"])
            messages.append({"role": role, "content": text_of(f"{where}.content", item.get("content"))})
        else:
            refuse(where, f"{where}: found type {kind!r}, wanted message, function_call or function_call_output")
    return messages


def response(body: Mapping[str, Any], given: Given) -> dict[str, Any]:
    """Return the answer to a request."""
    output: list[dict[str, Any]] = []
    if given.content is not None:
        part = {"type": "output_text", "text": given.content, "annotations": [], "logprobs": []}
        output.append(
            {"id": _id("msg"), "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        )
    for call in given.calls:
        own = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        output.append({"id": _id("fc"), "type": "function_call", "status": "completed", **own})
    usage = usage_of(given)
    return {
        "id": given.id,
        "object": "response",
        "created_at": int(time.time()),
        # an answer that the token limit cut, too: the Agents SDK takes an incomplete one for a failure
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": body.get("temperature"),
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
    }


def events(body: Mapping[str, Any], given: Given) -> Iterator[str]:
    """Yield the events of a stream; they come when the answer has ended."""
    whole_response, numbers = response(body, given), iter(range(1 << 30))

    def event(kind: str, **more: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': next(numbers), **more})}\n\n"

    begun = {**whole_response, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for index, item in enumerate(whole_response["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield event("response.output_item.added", output_index=index, item={**item, **empty, "status": "in_progress"})
        if item["type"] == "message":
            (part,) = item["content"]
            at |= {"content_index": 0}
            yield event("response.content_part.added", **at, part={**part, "text": ""})
            yield event("response.output_text.delta", **at, delta=part["text"], logprobs=[])
            yield event("response.output_text.done", **at, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **at, part=part)
        else:
            yield event("response.function_call_arguments.delta", **at, delta=item["arguments"])
            yield event("response.function_call_arguments.done", **at, name=item["name"], arguments=item["arguments"])
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole_response)


def _id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"


def no_embeddings() -> ApiError:
    """Return the error of `/v1/embeddings`."""
    message = "embeddings: the agents of this server write text; take embeddings from another server"
    return ApiError(400, "invalid_request_error", message, code="unsupported_endpoint")
