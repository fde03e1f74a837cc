"""Episodes as OpenTelemetry spans, after the semantic conventions for generative AI (extra `telemetry`).

    invoke_workflow marft/tools_duo-v0          one an episode
      invoke_agent clerk_0                      one a turn; agent.trajectory.step counts turns from 0
        execute_tool refund                     one a call of that turn

Names and attributes follow the GenAI conventions 1.41 (status: development); our own start with `marft.`. A
record holds no times, so that equal games have equal records. Spans therefore get times of their own, in the order of
the turns, a millisecond each. Texts are left out unless asked for: they may hold data that must not leave the machine.

`write_spans` writes the OTLP JSON file format, one trace a line, which the OpenTelemetry Collector reads
(`otlpjsonfile` receiver). `records.span_files` reads such files back.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from marft_common.atomic_files import replacing
from marft_common.installation import pip_install
from marft_envs.game.episode import Episode
from marft_envs.game.turn import Turn

_STEP_NS = 1_000_000


def export_spans(episode: Episode, tracer: Any = None, *, texts: bool = False, start_ns: int | None = None) -> None:
    """Emit the spans of an episode.

    Args:
        episode: Record of the episode.
        tracer: An OpenTelemetry tracer; None is that of the global provider.
        texts: True to include observations, actions and the arguments of calls.
        start_ns: Start of the episode in ns since the epoch; None is now.

    Raises:
        ImportError: OpenTelemetry is missing; names the extra.
    """
    api = _package("opentelemetry.trace")
    tracer = api.get_tracer("marft_envs") if tracer is None else tracer
    begin = time.time_ns() if start_ns is None else start_ns
    root = tracer.start_span(
        f"invoke_workflow {episode.env_id}", start_time=begin, attributes=_workflow_attributes(episode)
    )
    within = api.set_span_in_context(root)
    now = begin
    for step, turn in enumerate(episode.turns):
        span = tracer.start_span(
            f"invoke_agent {turn.agent}", within, start_time=now, attributes=_agent_attributes(turn, step, texts)
        )
        # A record may end inside a round, which has no outcome yet.
        outcome = episode.outcomes[turn.round] if turn.round < len(episode.outcomes) else None
        events = [] if outcome is None else outcome.events
        calls = [event for event in events if event.get("kind") == "call" and event.get("agent") == turn.agent]
        inside, tick = api.set_span_in_context(span), _STEP_NS // (len(calls) + 1)
        for place, call in enumerate(calls):
            name, started = f"execute_tool {call.get('name', '')}", now + place * tick
            child = tracer.start_span(name, inside, start_time=started, attributes=_tool_attributes(call, texts))
            if call.get("status") != "ok":
                child.set_status(api.Status(api.StatusCode.ERROR))
            child.end(started + tick)
        now += _STEP_NS
        span.end(now)
    root.end(max(now, begin + 1))


def write_spans(path: str | Path, episodes: Iterable[Episode], *, texts: bool = False) -> int:
    """Write the spans of episodes to a file, one trace a line; return the number of episodes.

    The file is written to a temporary name and renamed into place. Episodes follow each other in time.

    Args:
        path: Path of the file.
        episodes: Records of the episodes.
        texts: True to include observations, actions and the arguments of calls.

    Raises:
        ImportError: OpenTelemetry's SDK is missing; names the extra.
    """
    sdk, export = _package("opentelemetry.sdk.trace"), _package("opentelemetry.sdk.trace.export")
    memory = _package("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    count, now = 0, time.time_ns()
    with replacing(Path(path)) as part, part.open("w", encoding="utf-8") as stream:
        for episode in episodes:
            export_spans(episode, provider.get_tracer("marft_envs"), texts=texts, start_ns=now)
            spans = memory.get_finished_spans()
            memory.clear()
            count, now = count + 1, max(span.end_time for span in spans)
            scope = {"scope": {"name": "marft_envs"}, "spans": [_otlp_span(span) for span in spans]}
            resource = {"attributes": _otlp_attributes({"service.name": "marft"})}
            stream.write(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}) + "\n")
    return count


def _otlp_span(span: Any) -> dict[str, Any]:
    """Return a finished span in OTLP's JSON encoding: ids in hexadecimal, 64-bit numbers as text."""
    encoded: dict[str, Any] = {"traceId": f"{span.context.trace_id:032x}", "spanId": f"{span.context.span_id:016x}"}
    if span.parent is not None:
        encoded["parentSpanId"] = f"{span.parent.span_id:016x}"
    encoded |= {
        "name": span.name,
        "kind": 1,  # SPAN_KIND_INTERNAL
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _otlp_attributes(span.attributes),
    }
    if not span.status.is_unset:
        encoded["status"] = {"code": 2}  # STATUS_CODE_ERROR
    return encoded


def _otlp_attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _otlp_value(value)} for key, value in attributes.items()]


def _otlp_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_otlp_value(one) for one in value]}}


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"spans need: {pip_install('telemetry')}") from error


def _workflow_attributes(episode: Episode) -> dict[str, Any]:
    found: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": episode.env_id,
        "marft.task.id": episode.task_id,
        "marft.team": episode.team,
        "marft.success": episode.success,
        "marft.terminated": episode.terminated,
        "marft.truncated": episode.truncated,
        "marft.reward": sum(episode.rewards),
    }
    if episode.seed is not None:
        found["marft.seed"] = episode.seed
    for name, value in episode.terms.items():
        found[f"marft.reward.{name}"] = value
    return found


def _agent_attributes(turn: Turn, step: int, texts: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": turn.agent,
        "agent.trajectory.step": step,
        "marft.round": turn.round,
        "marft.layer": turn.layer,
        "marft.visible": [f"{round}/{agent}" for round, agent in turn.visible],
    }
    if turn.tokens is not None:
        found["gen_ai.usage.output_tokens"] = turn.tokens
    if turn.fault:
        found["error.type"] = "invalid_action"  # the full error may quote the action
    if texts:
        found["marft.fault"] = turn.fault
        found["gen_ai.input.messages"] = _input_messages(turn.observation)
        said = {"role": "assistant", "parts": [_text_part(turn.action)], "finish_reason": "stop"}
        found["gen_ai.output.messages"] = json.dumps([said], ensure_ascii=False)
        if (fixed := getattr(turn.observation, "fixed_messages", None)) is not None:
            found["marft.fixed_messages"] = fixed
    return found


def _input_messages(observation: str) -> str:
    """Return the chat form of an observation as JSON; a text without one, as files hold it, is one user message."""
    messages = getattr(observation, "messages", ()) or ({"role": "user", "content": str(observation)},)
    shown = []
    for message in messages:
        name = {"name": message["name"]} if "name" in message else {}
        shown.append({"role": message["role"], "parts": [_text_part(message["content"])], **name})
    return json.dumps(shown, ensure_ascii=False)


def _text_part(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _tool_attributes(call: Mapping[str, Any], texts: bool) -> dict[str, Any]:
    found = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": str(call.get("name", "")),
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": str(call.get("agent", "")),
    }
    if call.get("status") != "ok":
        found["error.type"] = str(call.get("status"))
    if texts:
        found["gen_ai.tool.call.arguments"] = json.dumps(call.get("arguments"), ensure_ascii=False)
    return found
