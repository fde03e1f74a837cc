"""Spans of others: agents from the span or around it, several lines a trace, and refusals that name the attributes."""

from __future__ import annotations

import json

import pytest

from marft_envs.records.span_files import SpanError, read_traces


def attributes(**named):
    kinds = {bool: "boolValue", int: "intValue", str: "stringValue", float: "doubleValue"}
    return [
        {"key": key.replace("__", "."), "value": {kinds[type(value)]: str(value) if type(value) is int else value}}
        for key, value in named.items()
    ]


def span(number, parent="", trace="t1", **named):
    return {
        "traceId": trace,
        "spanId": str(number),
        **({"parentSpanId": str(parent)} if parent else {}),
        "name": f"span {number}",
        "startTimeUnixNano": str(number * 1000),
        "attributes": attributes(**named),
    }


def written(path, *lines):
    batches = [{"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]} for spans in lines]
    path.write_text("\n".join(map(json.dumps, batches)))
    return path


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


CALL = {"type": "tool_call", "id": "1", "name": "refund", "arguments": {"order": "O1"}}
SEEN = [text("user", "Refund O1."), {"role": "tool", "parts": [{"type": "tool_call_response", "response": {"ok": 1}}]}]
MODEL_CALL = {
    "gen_ai__operation__name": "chat",
    "gen_ai__input__messages": json.dumps(SEEN),
    "gen_ai__output__messages": json.dumps([{"role": "assistant", "parts": [text("", "So")["parts"][0], CALL]}]),
    "gen_ai__usage__output_tokens": 7,
}
AGENT = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "clerk"}


def test_model_calls_inside_an_agents_span_are_its_turns(tmp_path):
    instructions = json.dumps([{"type": "text", "content": "Be kind."}])
    path = written(
        tmp_path / "s.jsonl",
        [span(3, 2, **MODEL_CALL, gen_ai__system_instructions=instructions), span(9, 8, trace="t2", **MODEL_CALL)],
        [span(1, app__ok=True), span(2, 1, **AGENT), span(4, 2, **MODEL_CALL), span(8, trace="t2", **AGENT)],
    )
    first, second = read_traces(path)
    assert first.attributes == {"app.ok": True}
    assert (len(first.turns), first.tokens, len(second.turns)) == (2, 14, 1)
    turn, later = first.turns
    assert (turn.agent, turn.fixed_messages) == ("clerk", None)
    assert turn.messages == (
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Refund O1."},
        {"role": "user", "content": '{"ok": 1}'},
    )
    assert later.messages == turn.messages[1:]
    assert turn.action == 'So\n<tool_call>{"name": "refund", "arguments": {"order": "O1"}}</tool_call>'


def test_one_document_reads_like_lines(tmp_path):
    spans = [span(2, **AGENT), span(3, 2, **MODEL_CALL)]
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}, indent=1))
    assert read_traces(path)[0].turns == read_traces(written(tmp_path / "s.jsonl", spans))[0].turns


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("gen_ai__input__messages", r"lack gen_ai\.input\.messages \(1 of 2\); the first is 'span 3' of trace t1"),
        ("gen_ai__output__messages", r"lack gen_ai\.output\.messages \(1 of 2\)"),
    ],
)
def test_missing_attributes_are_named_with_their_number(tmp_path, missing, named):
    less = {key: value for key, value in MODEL_CALL.items() if key != missing}
    path = written(tmp_path / "s.jsonl", [span(2, **AGENT), span(3, 2, **less), span(4, 2, **MODEL_CALL)])
    with pytest.raises(SpanError, match=named):
        read_traces(path)


def test_turns_without_an_agent_and_files_without_turns_are_refused(tmp_path):
    path = written(tmp_path / "s.jsonl", [span(3, **MODEL_CALL)])
    with pytest.raises(SpanError, match=r"lack gen_ai\.agent\.name \(1 of 1\)"):
        read_traces(path)
    with pytest.raises(SpanError, match=r"no span is a turn: wanted gen_ai\.operation\.name to be chat"):
        read_traces(written(path, [span(1, app__ok=True)]))
    for content in ('{"resourceSpans": [{}]}', "[1]", "{", '{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}'):
        path.write_text(content)
        with pytest.raises(SpanError, match=r"s\.jsonl"):
            read_traces(path)
    audio = json.dumps([{"role": "user", "parts": [{"type": "blob", "content": "x"}]}])
    with pytest.raises(SpanError, match="part of type 'blob', wanted text"):
        read_traces(written(path, [span(3, **{**MODEL_CALL, **AGENT, "gen_ai__input__messages": audio})]))
