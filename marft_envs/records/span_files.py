"""Read OTLP JSON files of generative-AI spans: the turns of agents as chat messages, trace by trace.

Reads files of `records.opentelemetry.write_spans`, and those that others recorded by the GenAI conventions 1.41. A turn
is a model call (`gen_ai.operation.name` is chat, generate_content or text_completion), or an `invoke_agent` span
without model calls inside. It needs `gen_ai.input.messages`, `gen_ai.output.messages` and `gen_ai.agent.name`, the last
on the span itself or on one around it. What cannot be used is counted by its reason: failed calls, spans without texts,
images, signals other than spans.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from marft_envs.records.span_messages import UnusableError, first_choice, joined, read_messages, read_parts
from marft_envs.spaces import is_clean

MODEL_CALLS = ("chat", "generate_content", "text_completion")
INPUT, OUTPUT, AGENT = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.agent.name"
OPERATION, INSTRUCTIONS, FIXED = "gen_ai.operation.name", "gen_ai.system_instructions", "marft.fixed_messages"
TOKENS = "gen_ai.usage.output_tokens"


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
    failed: bool
    attributes: Mapping[str, Any]


class _Read(NamedTuple):
    turn: ChatTurn
    further_choices: int


def read_traces(path: str | Path, left_out: Counter[str] | None = None) -> list[Trace]:
    """Read the traces of a file in OTLP's JSON encoding that have turns: one document, or one object a line.

    Args:
        path: Path of the file.
        left_out: Counts what cannot be used, by the reason, and the rest is read. None: such a file is refused.

    Raises:
        SpanError: The file cannot be read, or has no turn that can be used; or one cannot, and all are wanted.
    """
    path = Path(path)
    faults = _Faults()
    traces: dict[str, dict[str, _Span]] = {}
    for where, record in _documents(path, faults):
        for trace_id, span in _spans(where, record, faults):
            traces.setdefault(trace_id, {})[span.id] = span
    if not traces:
        raise SpanError(f"{path} has no spans: wanted OTLP JSON with resourceSpans{faults.described()}")
    read = [_trace(path, trace_id, spans, faults) for trace_id, spans in traces.items()]
    if not faults.turns:
        raise SpanError(f"{path}: no span is a turn: wanted {OPERATION} to be {', '.join(MODEL_CALLS)} or invoke_agent")
    found = [trace for trace in read if trace.turns]
    if faults.counts and (left_out is None or not found):
        raise SpanError(
            f"{path}: {'not all' if found else 'none'} of its spans can be used{faults.described()}. Record texts and "
            "agents: `marft export --texts` does, other tracers have a setting for the content of messages"
        )
    if left_out is not None:
        left_out.update(faults.counts)
    return found


class _Faults:
    """Count of what cannot be used, by the reason.

    Attributes:
        counts: Number of spans or lines by reason.
        turns: Number of spans that are turns.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.turns = 0
        self._first = ""

    def add(self, reason: str, where: str) -> None:
        """Count one, and keep the place of the first."""
        self.counts[reason] += 1
        self._first = self._first or where

    def described(self) -> str:
        """Return the counts and the first place for an error; nothing without faults."""
        total = f" of {self.turns}" if self.turns else ""
        counts = ", ".join(f"{reason} ({count}{total})" for reason, count in self.counts.items())
        return f": {counts}; the first is {self._first}" if counts else ""


def _documents(path: Path, faults: _Faults) -> Iterator[tuple[str, Any]]:
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
                faults.add("lines that are no JSON", f"{path}:{number} ({error})")


def _spans(where: str, record: Any, faults: _Faults) -> Iterator[tuple[str, _Span]]:
    """Yield (trace id, span) of an OTLP object; its lists may be missing or null, as in all JSON of proto3."""
    if not isinstance(record, Mapping) or "resourceSpans" not in record:
        kinds = ", ".join(map(str, record)) if isinstance(record, Mapping) else type(record).__name__
        faults.add(f"records of {kinds[:60] or 'nothing'} instead of resourceSpans", where)
        return
    for resource in _mappings(record["resourceSpans"]):
        for scope in _mappings(resource.get("scopeSpans")):
            for span in _mappings(scope.get("spans")):
                try:
                    yield str(span["traceId"]), _span(span)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    name = type(error).__name__
                    faults.add(f"spans that are no OTLP JSON with traceId and spanId, {name}", f"{where} ({error})")


def _mappings(listed: Any) -> Iterator[Mapping[str, Any]]:
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, Mapping):
            yield one


def _span(span: Mapping[str, Any]) -> _Span:
    return _Span(
        id=str(span["spanId"]),
        parent=str(span.get("parentSpanId") or ""),
        name=str(span.get("name") or ""),
        start=int(span.get("startTimeUnixNano") or 0),
        failed=(span.get("status") or {}).get("code") in (2, "STATUS_CODE_ERROR"),
        attributes={one["key"]: _value(one.get("value") or {}) for one in span.get("attributes") or ()},
    )


def _value(value: Mapping[str, Any]) -> Any:
    """Decode an OTLP value; 64-bit numbers are text there."""
    content: Any
    kind, content = next(iter(value.items()), ("", None))
    if kind == "intValue":
        content = int(content)
    elif kind == "arrayValue":
        content = [_value(one) for one in (content.get("values") or ())]
    elif kind == "kvlistValue":
        content = {one["key"]: _value(one["value"]) for one in (content.get("values") or ())}
    return content


def _trace(path: Path, trace_id: str, spans: Mapping[str, _Span], faults: _Faults) -> Trace:
    """Return the turns of a trace; what cannot be used is counted."""
    roots = [span for span in spans.values() if span.parent not in spans]
    attributes = min(roots, key=lambda span: span.start).attributes if roots else {}
    read: dict[str, _Read | str] = {}
    for span in spans.values():
        if span.attributes.get(OPERATION) in (*MODEL_CALLS, "invoke_agent"):
            read[span.id] = _read(span, spans)
    turns, tokens = list[ChatTurn](), list[int]()
    for span in _one_of_each_call(spans, read):
        found, where = read[span.id], f"{span.name!r} of trace {trace_id}"
        faults.turns += 1
        if isinstance(found, str):
            faults.add(found, where)
            continue
        turns.append(found.turn)
        if found.further_choices:
            faults.add("further choices of a call", where)
        for one in (span, *_same_call(span, spans)):
            number = one.attributes.get(TOKENS)
            if isinstance(number, int | float):  # spans around each other count the same tokens: the innermost is taken
                tokens.append(int(number))
                break
    return Trace(f"{path}: trace {trace_id}", attributes, tuple(turns), sum(tokens) if tokens else None)


def _one_of_each_call(spans: Mapping[str, _Span], read: Mapping[str, _Read | str]) -> list[_Span]:
    """Return one span of each turn, by start; an agent's span around model calls is none.

    A wrapper and a client may both record one call, as spans around each other. The innermost that can be used counts.
    """
    calls = {id for id in read if spans[id].attributes[OPERATION] in MODEL_CALLS}
    around_calls: set[str] = set()
    for call in calls:
        around_calls |= {outer.id for outer in _around(spans[call], spans)}
    turns = [id for id in read if id in calls or id not in around_calls]
    wrappers: dict[str, set[str]] = {}
    around_usable: set[str] = set()
    for turn in turns:
        wrappers[turn] = {outer.id for outer in _same_call(spans[turn], spans)}
        if not isinstance(read[turn], str):
            around_usable |= wrappers[turn]
    chosen = []
    for turn in turns:
        usable = not isinstance(read[turn], str)
        # Of unusable spans around each other the outermost counts, so that one fault is counted once.
        if turn not in around_usable and (usable or wrappers[turn] <= around_usable):
            chosen.append(spans[turn])

    def time(span: _Span) -> tuple[int, int]:
        step = span.attributes.get("agent.trajectory.step")
        return span.start, step if isinstance(step, int) else 0

    return sorted(chosen, key=time)


def _same_call(span: _Span, spans: Mapping[str, _Span]) -> Iterator[_Span]:
    """Yield the spans around a span that record the same call, or the same agent's turn, up to one of another kind."""
    is_call, agent = span.attributes.get(OPERATION) in MODEL_CALLS, span.attributes.get(AGENT)
    for outer in _around(span, spans):
        operation = outer.attributes.get(OPERATION)
        same_agent = operation == "invoke_agent" and outer.attributes.get(AGENT) == agent
        if operation in MODEL_CALLS if is_call else same_agent:
            yield outer
        elif operation is not None:
            return


def _around(span: _Span, spans: Mapping[str, _Span]) -> Iterator[_Span]:
    """Yield the spans around a span, the nearest first."""
    seen = {span.id}
    while (found := spans.get(span.parent)) is not None and found.id not in seen:
        span = found
        seen.add(span.id)
        yield span


def _agent_of(span: _Span, spans: Mapping[str, _Span]) -> str | None:
    for one in (span, *_around(span, spans)):
        name = one.attributes.get(AGENT)
        if isinstance(name, str) and name:
            return name
    return None


def _read(span: _Span, spans: Mapping[str, _Span]) -> _Read | str:
    """Return the turn of a span, or the reason why it cannot be used."""
    attributes, agent = span.attributes, _agent_of(span, spans)
    error = attributes.get("error.type")
    if span.failed or (error and not attributes.get(OUTPUT)):
        return f"failed calls, {error}" if error else "failed calls"
    lacking = [name for name in (INPUT, OUTPUT) if attributes.get(name) in (None, "", [], "[]")]
    if lacking or not agent:
        return f"spans lack {' and '.join(lacking if agent else [*lacking, AGENT])}"
    try:
        messages = [message.to_dict() for message in read_messages(INPUT, attributes[INPUT], "user")]
        if instructions := attributes.get(INSTRUCTIONS):
            messages.insert(0, {"role": "system", "content": read_parts(INSTRUCTIONS, instructions)})
        said = [one for one in read_messages(OUTPUT, attributes[OUTPUT], "assistant") if one.role == "assistant"]
    except UnusableError as reason:
        return str(reason)
    action, further = joined(said), 0
    if attributes[OPERATION] in MODEL_CALLS:
        choices = attributes.get("gen_ai.request.choice.count")
        action, further = first_choice(said, choices if isinstance(choices, int) else None)
    texts = [agent, action]
    for message in messages:
        texts += message.values()
    if not all(map(is_clean, texts)):
        return "texts with a lone surrogate, cut inside a character"
    fixed = attributes.get(FIXED)
    known = fixed if isinstance(fixed, int) and 0 <= fixed <= len(messages) else None
    return _Read(ChatTurn(agent, tuple(messages), known, action), further)
