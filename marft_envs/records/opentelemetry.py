"""Episodes as OpenTelemetry spans, after the semantic conventions for generative AI (extra `telemetry`).

    invoke_workflow marft/tools_duo-v0          one an episode
      invoke_agent clerk_0                      one a turn; agent.trajectory.step counts turns from 0
        execute_tool refund                     one a call of that turn

Names and attributes follow the GenAI conventions 1.41 (status: development); our own start with `marft.`. A
record holds no times, so that equal games have equal records. Spans therefore get times of their own, in the order of
the turns, a millisecond each. Texts are left out unless asked for: they may hold data that must not leave the machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from marft_envs.records.episode import Episode
from marft_envs.records.turn import Turn

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
    try:
        from opentelemetry import trace as api
    except ImportError as error:
        raise ImportError("spans need: pip install 'marft[telemetry]'") from error
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


def _workflow_attributes(episode: Episode) -> dict[str, Any]:
    terms = {f"marft.reward.{name}": value for name, value in episode.terms.items()}
    return {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": episode.env_id,
        "marft.task.id": episode.task_id,
        "marft.team": episode.team,
        "marft.success": episode.success,
        "marft.terminated": episode.terminated,
        "marft.truncated": episode.truncated,
        "marft.reward": sum(episode.rewards),
        **({} if episode.seed is None else {"marft.seed": episode.seed}),
        **terms,
    }


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
        found["gen_ai.input.messages"] = turn.observation
        found["gen_ai.output.messages"] = turn.action
    return found


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
