"""Spans of others: agents from the span or around it, several lines a trace, and refusals that name the attributes."""

from __future__ import annotations

import json
from collections import Counter

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


# ------------------------------------------------------------------ forms of messages

ROME = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
OPENAI = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
ANTHROPIC = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}}
RESPONSES = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Rome"}'}
ASKED = {"role": "user", "content": "2+2?"}
FOUR, FIVE = text("assistant", "4"), text("assistant", "5")


def said(content, **more):
    return [{"role": "assistant", "content": content, **more}]


ACTIONS = {
    "content and tool_calls": (said("Let me check.", tool_calls=[OPENAI]), "Let me check.\n" + ROME),
    "empty content and tool_calls": (said("", tool_calls=[OPENAI]), ROME),
    "null content and tool_calls": (said(None, tool_calls=[OPENAI, OPENAI]), f"{ROME}\n{ROME}"),
    "content parts and tool_calls": (said([{"type": "text", "text": "So"}], tool_calls=[OPENAI]), "So\n" + ROME),
    "null tool_calls": (said("4", tool_calls=None), "4"),
    "tool_calls as text": (said("", tool_calls=json.dumps([OPENAI])), ROME),
    "tool_calls without function": (said("", tool_calls=[{"name": "weather", "args": {"city": "Rome"}}]), ROME),
    "function_call": (said(None, function_call={"name": "weather", "arguments": '{"city": "Rome"}'}), ROME),
    "call without arguments": (said("", tool_calls=[{"function": {"name": "stop", "arguments": None}}]),
                               '<tool_call>{"name": "stop", "arguments": {}}</tool_call>'),
    "parts and tool_calls": ([{**FOUR, "tool_calls": [OPENAI]}], "4\n" + ROME),
    "tool_use": (said([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "So"}, ANTHROPIC]),
                 "So\n" + ROME),
    "the same call twice": (said([ANTHROPIC], tool_calls=[OPENAI]), ROME),
    "items": ([{"type": "reasoning", "summary": [], "content": None}, {"type": "message", **said("So")[0]}, RESPONSES],
              "So\n" + ROME),
    "reasoning": ([{"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, *FOUR["parts"]]}], "4"),
    "a message and its call": ([*said("So"), *said(None, tool_calls=[OPENAI])], "So\n" + ROME),
    "a thought": ([{"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "4"}]}], "4"),
    "two choices": ([FOUR, FIVE], "4"),
    "choices with reasons": ([{**said("", tool_calls=[OPENAI])[0], "finish_reason": "tool_calls"},
                              {**FIVE, "finish_reason": "stop"}], ROME),
    "response": ({"choices": [{"index": 0, "finish_reason": "stop", "message": said("4")[0]}]}, "4"),
    "one message": (FOUR, "4"),
    "another order of keys": ({"finish_reason": "stop", "parts": FOUR["parts"], "role": "assistant"}, "4"),
    "text": ("It is 4.", "It is 4."),
    "JSON that is an answer": ({"answer": [1, 2]}, '{"answer": [1, 2]}'),
}  # fmt: skip


@pytest.mark.parametrize("layout", [None, 2, "twice"])
@pytest.mark.parametrize("form", ACTIONS)
def test_calls_and_texts_are_kept_in_every_form_and_layout(tmp_path, form, layout):
    messages, action = ACTIONS[form]
    written_as = messages if isinstance(messages, str) else json.dumps(messages, indent=layout if layout == 2 else None)
    if layout == 2 and form == "JSON that is an answer":
        action = written_as
    output = json.dumps(written_as) if layout == "twice" else written_as
    given = {"gen_ai__input__messages": json.dumps([ASKED], indent=2), "gen_ai__output__messages": output}
    (trace,) = read_traces(written(tmp_path / "s.json", [span(1, **{**MODEL_CALL, **given}, **NAMED)]), Counter())
    assert trace.turns[0].messages == (ASKED,)
    assert trace.turns[0].action == action


NAMED = {"gen_ai__agent__name": "clerk"}


def otlp(value):
    """Return a value as a structured attribute."""
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": otlp(one)} for key, one in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp(one) for one in value]}}
    return {} if value is None else {"stringValue": value}


@pytest.mark.parametrize("each", [otlp, lambda messages: otlp([json.dumps(one) for one in messages])])
def test_structured_attributes_read_like_texts(tmp_path, each):
    spans = [span(1, **MODEL_CALL, **NAMED)]
    for attribute in spans[0]["attributes"]:
        if attribute["key"] == "gen_ai.output.messages":
            attribute["value"] = each(said(None, tool_calls=[OPENAI]))
    assert read_traces(written(tmp_path / "s.json", spans))[0].turns[0].action == ROME


def test_the_history_keeps_calls_and_results(tmp_path):
    history = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "weather in Rome?"},
        {"role": "assistant", "content": None, "tool_calls": [OPENAI]},
        {"role": "tool", "tool_call_id": "c1", "content": "18 C"},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "wind"}]}]},
        RESPONSES,
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    ]
    given = {**MODEL_CALL, **NAMED, "gen_ai__input__messages": json.dumps(history)}
    (turn,) = read_traces(written(tmp_path / "s.json", [span(1, **given)]))[0].turns
    roles, contents = zip(*((one["role"], one["content"]) for one in turn.messages), strict=True)
    assert roles == ("system", "user", "assistant", "user", "user", "assistant", "user")
    assert contents == ("Be kind.", "weather in Rome?", ROME, "18 C", "wind", ROME, "rain")


# ------------------------------------------------------------------ one turn of each call, and what is left out


def chat(number, parent="", **more):
    return span(number, parent, **{**MODEL_CALL, **NAMED, **more})


def failed(recorded):
    return {**recorded, "status": {"code": 2, "message": "429"}}


def without(recorded, *keys):
    return {**recorded, "attributes": [one for one in recorded["attributes"] if one["key"] not in keys]}


OUT = "gen_ai.output.messages"
TOOL = {"gen_ai__operation__name": "execute_tool"}
NESTED = {
    "wrapper and client": ([chat(1), chat(2, 1)], 1, 7, {}),
    "three levels": ([chat(1), span(2, 1, app__name="sdk"), chat(3, 2), chat(4, 3)], 1, 7, {}),
    "texts of the wrapper, tokens of the client": ([chat(1), without(chat(2, 1), OUT)], 1, 7, {}),
    "texts of the client, tokens of the wrapper": (
        [without(chat(1), OUT), without(chat(2, 1), "gen_ai.usage.output_tokens")], 1, 7, {}),
    "a failure and a second try": ([chat(1), failed(chat(2, 1)), chat(3, 1)], 1, 7, {"failed calls": 1}),
    "a call that fails": ([failed(chat(1)), failed(chat(2, 1)), chat(3)], 1, 7, {"failed calls": 1}),
    "a loop inside": ([chat(1), chat(2, 1), chat(3, 1)], 2, 14, {}),
    "an agent as a tool": ([chat(1), span(2, 1, **TOOL), chat(3, 2)], 2, 14, {}),
    "an agent's span twice": ([chat(1, **AGENT), chat(2, 1, **AGENT)], 1, 7, {}),
    "an agent that asks another": ([chat(1, **AGENT), chat(2, 1, **{**AGENT, "gen_ai__agent__name": "b"})], 2, 14, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", NESTED)
def test_spans_of_one_call_are_one_turn(tmp_path, case):
    spans, turns, tokens, wanted = NESTED[case]
    left_out = Counter()
    (trace,) = read_traces(written(tmp_path / "s.json", spans), left_out)
    assert (len(trace.turns), trace.tokens, dict(left_out)) == (turns, tokens, wanted)


LOST = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "\ud83d"}]}])
IMAGE = json.dumps([{"role": "user", "parts": [{"type": "blob", "modality": "image", "content": "aGk="}]}])
NO_NAME = json.dumps(said("", tool_calls=[{"id": "c1"}]))
BAD = {
    "failed calls": failed(chat(2)),
    "failed calls, RateLimitError": without(chat(2, error__type="RateLimitError"), OUT),
    "spans lack gen_ai.output.messages": without(chat(2), OUT),
    "spans lack gen_ai.input.messages": chat(2, gen_ai__input__messages="[]"),
    "spans lack gen_ai.agent.name": without(chat(2), "gen_ai.agent.name"),
    "texts with a lone surrogate, cut inside a character": chat(2, gen_ai__input__messages=LOST),
    "gen_ai.input.messages has a part of type 'blob', wanted text, tool_call or tool_call_response": chat(
        2, gen_ai__input__messages=IMAGE
    ),
    "gen_ai.output.messages has a tool call without the name of the tool": chat(2, gen_ai__output__messages=NO_NAME),
    "gen_ai.output.messages is no JSON: was it cut by a limit of the tracer?": chat(
        2, gen_ai__output__messages='[{"role": "assistant", "parts": [{"ty'
    ),
    "spans that are no OTLP JSON with traceId and spanId, KeyError": {"name": "x"},
}


@pytest.mark.parametrize("reason", BAD)
def test_what_cannot_be_used_is_counted_and_the_rest_is_read(tmp_path, reason):
    left_out = Counter()
    path = written(tmp_path / "s.jsonl", [chat(1), BAD[reason], chat(3)])
    assert len(read_traces(path, left_out)[0].turns) == 2
    assert left_out == {reason: 1}
    with pytest.raises(SpanError, match=r"s\.jsonl: not all of its spans can be used: "):
        read_traces(path)
    with pytest.raises(SpanError, match=r"s\.jsonl(: none of its spans can be used|: no span is a turn| has no spans)"):
        read_traces(written(path, [BAD[reason]]), left_out)


def test_other_signals_and_empty_lists_stand_beside_spans(tmp_path):
    path = written(tmp_path / "s.jsonl", [chat(1)])
    records = [
        {"resourceMetrics": [{"scopeMetrics": []}]}, {"resourceLogs": []}, {"resourceSpans": [{"resource": {}}]},
        {"resourceSpans": None}, {"resourceSpans": [{"scopeSpans": [{"scope": {}}, {"spans": None}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [span(7, trace="t9", app__ok=True)]}]}]},
    ]  # fmt: skip
    path.write_text("\n".join([*map(json.dumps, records), path.read_text(), '{"resourceSpans": [']))
    left_out = Counter()
    (trace,) = read_traces(path, left_out)
    assert len(trace.turns) == 1
    assert left_out == {
        "records of resourceMetrics instead of resourceSpans": 1,
        "records of resourceLogs instead of resourceSpans": 1,
        "lines that are no JSON": 1,
    }


def test_further_choices_are_counted(tmp_path):
    output = json.dumps([FOUR, FIVE])
    left_out = Counter()
    spans = [chat(1, gen_ai__output__messages=output, gen_ai__request__choice__count=2)]
    assert read_traces(written(tmp_path / "s.json", spans), left_out)[0].turns[0].action == "4"
    assert left_out == {"further choices of a call": 1}
    spans = [chat(1, gen_ai__output__messages=output, gen_ai__request__choice__count=1)]
    assert read_traces(written(tmp_path / "s.json", spans), left_out)[0].turns[0].action == "4\n5"
