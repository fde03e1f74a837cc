"""Records on disk read back equal; spans follow the conventions, checked with the SDK's in-memory exporter."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import marft_envs
from marft_envs.game.episode import Episode
from marft_envs.game.task import Outcome
from marft_envs.game.turn import Turn
from marft_envs.records.files import read_episodes, write_episodes
from marft_envs.records.opentelemetry import export_spans


def played(seed, **keywords):
    env = marft_envs.make("marft/math_trio-v0", horizon=2, dependency="full", reward="recipe", **keywords)
    env.reset(seed=seed)
    for text in ("one \n²≤中🙂", "two", "\\boxed{no}", "four", "five", "\\boxed{never}"):
        env.step(text)
    return env.unwrapped.episode()


def with_calls():
    turns = (
        Turn("clerk_0", 0, 0, (), "seen", "I call twice", tokens=7),
        Turn("boss_0", 0, 1, ((0, "clerk_0"),), "seen too", "no call", "too long"),
    )
    calls = (
        {"kind": "call", "round": 0, "agent": "clerk_0", "name": "find", "status": "ok", "arguments": {"id": 1}},
        {"kind": "call", "round": 0, "agent": "clerk_0", "name": "refund", "status": "error", "arguments": {}},
        {"kind": "hand_off", "round": 0, "agent": "clerk_0", "to": "boss_0"},
    )
    outcome = Outcome(1.0, True, True, False, events=calls)
    return Episode("x/tools-v0", {}, 5, "t", "f", turns, (outcome,), (1.0,), True, False, {"steps": 1.0})


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_records_read_back_equal(tmp_path, suffix):
    records = [played(0), played(None), with_calls(), replace(with_calls(), turns=(), outcomes=(None,))]
    path = tmp_path / f"traces.{suffix}"
    write_episodes(path, records)
    assert [record.to_dict() for record in read_episodes(path)] == [record.to_dict() for record in records]
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_parquet_can_be_queried_by_column(tmp_path):
    from pyarrow import parquet

    write_episodes(tmp_path / "traces.parquet", [played(0)])
    column = parquet.ParquetFile(tmp_path / "traces.parquet").read(columns=["turns.list.element.agent"])
    assert [turn["agent"] for turn in column["turns"][0].as_py()] == ["reasoner_0", "verifier_0", "actor_0"] * 2


def test_a_bad_line_or_ending_is_named(tmp_path):
    path = tmp_path / "traces.jsonl"
    path.write_text(played(0).to_json() + "\n{}\n")
    with pytest.raises(ValueError, match=r"traces\.jsonl:2: this is no record"):
        read_episodes(path)
    for use in (lambda: write_episodes("x.csv", []), lambda: read_episodes("x.csv")):
        with pytest.raises(ValueError, match=r"wanted \.jsonl or \.parquet"):
            use()


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "traces.jsonl"
    write_episodes(path, [played(0)])
    before = path.read_bytes()

    def broken():
        yield played(1)
        raise RuntimeError("the run broke")

    with pytest.raises(RuntimeError, match="broke"):
        write_episodes(path, broken())
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.fixture
def spans_of():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def export(episode, **keywords):
        exporter.clear()
        export_spans(episode, provider.get_tracer("test"), start_ns=10**18, **keywords)
        return {span.name: span for span in exporter.get_finished_spans()}

    return export


def test_spans_nest_workflow_agent_tool(spans_of):
    spans = spans_of(with_calls())
    assert sorted(spans) == [
        "execute_tool find", "execute_tool refund", "invoke_agent boss_0", "invoke_agent clerk_0",
        "invoke_workflow x/tools-v0",
    ]  # fmt: skip
    root, clerk = spans["invoke_workflow x/tools-v0"], spans["invoke_agent clerk_0"]
    assert root.parent is None
    assert clerk.parent.span_id == spans["invoke_agent boss_0"].parent.span_id == root.context.span_id
    assert spans["execute_tool find"].parent.span_id == clerk.context.span_id


def test_span_attributes(spans_of):
    spans = spans_of(with_calls())
    root = spans["invoke_workflow x/tools-v0"].attributes
    assert (root["gen_ai.operation.name"], root["marft.success"], root["marft.reward"]) == (
        "invoke_workflow",
        True,
        1.0,
    )
    assert (root["marft.seed"], root["marft.reward.steps"]) == (5, 1.0)
    boss = spans["invoke_agent boss_0"].attributes
    assert (boss["gen_ai.agent.name"], boss["agent.trajectory.step"]) == ("boss_0", 1)
    assert (list(boss["marft.visible"]), boss["error.type"]) == (["0/clerk_0"], "invalid_action")
    assert spans["invoke_agent clerk_0"].attributes["gen_ai.usage.output_tokens"] == 7
    refund = spans["execute_tool refund"]
    assert (refund.attributes["gen_ai.tool.name"], refund.attributes["error.type"]) == ("refund", "error")
    assert refund.status.status_code is StatusCode.ERROR
    assert spans["execute_tool find"].status.status_code is StatusCode.UNSET


def test_times_follow_the_turns(spans_of):
    spans = spans_of(with_calls())
    root, clerk, boss = (
        spans[n] for n in ("invoke_workflow x/tools-v0", "invoke_agent clerk_0", "invoke_agent boss_0")
    )
    find, refund = spans["execute_tool find"], spans["execute_tool refund"]
    assert root.start_time == clerk.start_time == 10**18 <= find.start_time < find.end_time <= refund.start_time
    assert refund.end_time <= clerk.end_time <= boss.start_time < boss.end_time <= root.end_time


def test_texts_are_left_out_unless_asked_for(spans_of):
    shown = [value for span in spans_of(with_calls()).values() for value in span.attributes.values()]
    assert not any(text in str(value) for value in shown for text in ("seen", "I call twice", '{"id": 1}'))
    spans = spans_of(with_calls(), texts=True)
    clerk = spans["invoke_agent clerk_0"].attributes
    said = {"role": "assistant", "parts": [{"type": "text", "content": "I call twice"}], "finish_reason": "stop"}
    assert json.loads(clerk["gen_ai.output.messages"]) == [said]
    assert json.loads(clerk["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "seen"}]}
    ]
    assert spans["execute_tool find"].attributes["gen_ai.tool.call.arguments"] == '{"id": 1}'
