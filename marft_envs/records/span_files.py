"""Read OTLP JSON files of generative-AI spans: the turns of agents as chat messages, trace by trace.

Reads files of `records.opentelemetry.write_spans`, and those that others recorded by the GenAI conventions 1.41. A turn
is a model call (`gen_ai.operation.name` is chat, generate_content or text_completion), or an `invoke_agent` span
without model calls inside. It needs `gen_ai.input.messages`, `gen_ai.output.messages` and `gen_ai.agent.name`, the last
on the span itself or on one around it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

MODEL_CALLS = ("chat", "generate_content", "text_completion")
INPUT, OUTPUT, AGENT = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.agent.name"
OPERATION, INSTRUCTIONS, FIXED = "gen_ai.operation.name", "gen_ai.system_instructions", "marft.fixed_messages"
_ROLES = {"developer": "system", "tool": "user", "model": "assistant"}  # roles that chat templates do not know


class SpanError(ValueError):
    """A span file that holds no turns; names the place, the attributes found missing and what to do."""


class ChatTurn(NamedTuple):
    """One agent's turn.

    Attributes:
        agent: Agent that acted.
        messages: Chat messages that it saw, each with role, content and possibly the author's name.
        fixed_messages: Number of leading messages that hold profile and problem; None if not recorded.
        action: Text of its answer; tool calls are written as `<tool_call>{...}</tool_call>`.
    """

    agent: str
    messages: tuple[Mapping[str, str], ...]
    fixed_messages: int | None
    action: str


class Trace(NamedTuple):
    """The turns of one trace, oldest first.

    Attributes:
        place: File and trace id.
        attributes: Attributes of the root span.
        turns: Turns in the order of their start times.
        tokens: Sampled tokens of all turns; None if no span counts them.
    """

    place: str
    attributes: Mapping[str, Any]
    turns: tuple[ChatTurn, ...]
    tokens: int | None


class _Span(NamedTuple):
    id: str
    parent: str
    name: str
    start: int
    attributes: Mapping[str, Any]


def read_traces(path: str | Path) -> list[Trace]:
    """Read all traces of a file in OTLP's JSON encoding: one document, or one object a line.

    Raises:
        SpanError: The file cannot be read, or its spans lack attributes; the message says which.
    """
    path = Path(path)
    traces: dict[str, dict[str, _Span]] = {}
    for where, record in _documents(path):
        for trace_id, span in _spans(where, record):
            traces.setdefault(trace_id, {})[span.id] = span
    if not traces:
        raise SpanError(f"{path} has no spans: wanted OTLP JSON with resourceSpans")
    chosen = {trace_id: _turn_spans(spans) for trace_id, spans in traces.items()}
    _check_attributes(path, traces, chosen)
    return [_trace(f"{path}: trace {trace_id}", traces[trace_id], chosen[trace_id]) for trace_id in traces]


def _documents(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpanError(f"{path} cannot be read: {error}") from error
    try:
        yield str(path), json.loads(text)
        return
    except (ValueError, RecursionError):  # no single document
        pass
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"{path}:{number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                raise SpanError(f"{path}:{number} is not JSON: {error}") from error


def _spans(where: str, record: Any) -> Iterator[tuple[str, _Span]]:
    """Yield (trace id, span) of an OTLP object."""
    try:
        for resource in record["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    attributes = {one["key"]: _value(one["value"]) for one in span.get("attributes", ())}
                    start = int(span.get("startTimeUnixNano", 0))
                    parent = span.get("parentSpanId", "")
                    yield span["traceId"], _Span(span["spanId"], parent, span.get("name", ""), start, attributes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SpanError(
            f"{where} is no OTLP JSON: {type(error).__name__}: {error}; wanted resourceSpans, scopeSpans and spans "
            "with traceId and spanId"
        ) from error


def _value(value: Mapping[str, Any]) -> Any:
    """Decode an OTLP value; 64-bit numbers are text there."""
    content: Any
    kind, content = next(iter(value.items()), ("", None))
    if kind == "intValue":
        content = int(content)
    elif kind == "arrayValue":
        content = [_value(one) for one in content.get("values", ())]
    elif kind == "kvlistValue":
        content = {one["key"]: _value(one["value"]) for one in content.get("values", ())}
    return content


def _turn_spans(spans: Mapping[str, _Span]) -> list[_Span]:
    """Return the spans that are turns, by start; an agent's span with model calls inside is none."""
    calls = [span for span in spans.values() if span.attributes.get(OPERATION) in MODEL_CALLS]
    covered = {outer.id for call in calls for outer in _around(call, spans)}
    agents = [
        span for span in spans.values() if span.attributes.get(OPERATION) == "invoke_agent" and span.id not in covered
    ]
    return sorted([*calls, *agents], key=lambda span: (span.start, span.attributes.get("agent.trajectory.step", 0)))


def _around(span: _Span, spans: Mapping[str, _Span]) -> Iterator[_Span]:
    """Yield the spans around a span, the nearest first."""
    seen = {span.id}
    while (found := spans.get(span.parent)) is not None and found.id not in seen:
        span = found
        seen.add(span.id)
        yield span


def _agent_of(span: _Span, spans: Mapping[str, _Span]) -> str | None:
    names = (one.attributes.get(AGENT) for one in (span, *_around(span, spans)))
    return next((name for name in names if isinstance(name, str) and name), None)


def _check_attributes(
    path: Path, traces: Mapping[str, Mapping[str, _Span]], chosen: Mapping[str, Sequence[_Span]]
) -> None:
    missing: Counter[str] = Counter()
    first = ""
    for trace_id, spans in chosen.items():
        for span in spans:
            lacking = [name for name in (INPUT, OUTPUT) if not span.attributes.get(name)]
            lacking += [] if _agent_of(span, traces[trace_id]) else [AGENT]
            missing.update(lacking)
            first = first or (lacking and f"{span.name!r} of trace {trace_id}") or ""
    if missing:
        counts = ", ".join(f"{name} ({number} of {sum(map(len, chosen.values()))})" for name, number in missing.items())
        raise SpanError(
            f"{path}: spans of turns lack {counts}; the first is {first}. Record texts and agents: `marft export "
            "--texts` does, other tracers have a setting for the content of messages"
        )
    if not any(chosen.values()):
        raise SpanError(f"{path}: no span is a turn: wanted {OPERATION} to be {', '.join(MODEL_CALLS)} or invoke_agent")


def _trace(place: str, spans: Mapping[str, _Span], turns: Sequence[_Span]) -> Trace:
    roots = [span for span in spans.values() if span.parent not in spans]
    attributes = min(roots, key=lambda span: span.start).attributes if roots else {}
    counted = [span.attributes.get("gen_ai.usage.output_tokens") for span in turns]
    tokens = [int(number) for number in counted if isinstance(number, int | float)]
    read = tuple(_turn(f"{place}, span {span.name!r}", span, str(_agent_of(span, spans))) for span in turns)
    return Trace(place, attributes, read, sum(tokens) if tokens else None)


def _turn(place: str, span: _Span, agent: str) -> ChatTurn:
    messages = _messages(place, INPUT, span.attributes[INPUT], "user")
    if instructions := span.attributes.get(INSTRUCTIONS):
        content = _content(place, _decoded(place, INSTRUCTIONS, instructions))
        messages = [{"role": "system", "content": content}, *messages]
    said = _messages(place, OUTPUT, span.attributes[OUTPUT], "assistant")
    fixed = span.attributes.get(FIXED)
    return ChatTurn(
        agent,
        tuple(messages),
        fixed if isinstance(fixed, int) and 0 <= fixed <= len(messages) else None,
        "\n".join(message["content"] for message in said if message["role"] == "assistant"),
    )


def _messages(place: str, name: str, value: Any, role: str) -> list[dict[str, str]]:
    """Read messages: a JSON list, the same as structured attribute, or plain text of one message."""
    decoded = _decoded(place, name, value)
    if isinstance(decoded, str):
        return [{"role": role, "content": decoded}]
    messages = []
    for one in decoded if isinstance(decoded, list) else [decoded]:
        if not isinstance(one, Mapping) or not isinstance(one.get("role", role), str):
            raise SpanError(f"{place}: {name}: found {str(one)[:60]!r}, wanted messages with role and parts")
        content = _content(place, one.get("parts", one.get("content", "")))
        told = one.get("role", role)
        author = {"name": one["name"]} if isinstance(one.get("name"), str) else {}
        messages.append({"role": _ROLES.get(told, told), "content": content, **author})
    return messages


def _decoded(place: str, name: str, value: Any) -> Any:
    """Return an attribute as data; a text that does not begin like JSON stays text."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[{", "[ {", '{"role"')):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise SpanError(f"{place}: {name} is not JSON: {error}; was it cut by a limit of the tracer?") from error


def _content(place: str, parts: Any) -> str:
    """Return the text of a message's parts; calls and results of tools in the notation of our tool worlds."""
    if isinstance(parts, str):
        return parts
    texts = []
    for part in parts if isinstance(parts, list) else [parts]:
        kind = part.get("type", "text") if isinstance(part, Mapping) else None
        if kind == "text":
            texts.append(str(part.get("content", part.get("text", ""))))
        elif kind == "tool_call":
            arguments = part.get("arguments") or {}
            call = {"name": part.get("name"), "arguments": _arguments(arguments)}
            texts.append(f"<tool_call>{json.dumps(call, ensure_ascii=False)}</tool_call>")
        elif kind == "tool_call_response":
            result = part.get("response", part.get("result", ""))
            texts.append(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))
        elif kind != "reasoning":  # never part of the action
            raise SpanError(f"{place}: found a part of type {kind!r}, wanted text, tool_call or tool_call_response")
    return "\n".join(texts)


def _arguments(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
