r"""Action-state records: the tool calls of an action and their effects, without its prose.

After PACT (arXiv 2606.05304): agents need from each other the action and the resulting state. An action is therefore
projected to a compact record before others see it. The projection here is a fixed rule, not a model:

    did: get_order(order_id="W3") -> ok; refund(order_id="W3") -> error
    changed: orders.W3.status = "refunded"
    answer: 42
    said: the last line, of an action that did nothing and gives no answer

Results are added once the round is over; before that, a call has none. Tool results are private to the caller and never
part of a record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from marft_envs.communication.action_views import Utterance
from marft_envs.grading import boxed_answers
from marft_envs.tasks.tools.calls import CallError, read_calls

_MOST_CHARS = 200


def action_record(action: str, events: Sequence[Mapping[str, Any]] = ()) -> str:
    r"""Project an action to its record.

    Args:
        action: Text of the action.
        events: Events of its author in that round, once it is over: of kind "call" with name, arguments, status and
            changed (pairs of path and new value), and of kind "hand_off" with to and message.

    Examples:
        >>> print(action_record("I look it up.\nget_order(order_id='W3')"))
        did: get_order(order_id="W3")
        >>> print(action_record("So it is \\boxed{42}."))
        answer: 42
    """
    changes = [f"{path} = {_short(value)}" for event in events for path, value in event.get("changed", ())]
    lines = [
        ("did", _did(action, events)),
        ("changed", _cut("; ".join(changes))),
        ("answer", _cut("; ".join(boxed_answers(action)[-1:]))),
    ]
    if not any(text for _, text in lines):
        lines.append(("said", _cut(action.rstrip().rpartition("\n")[2])))
    return "\n".join(f"{name}: {text}" for name, text in lines if text)


def record(said: Sequence[Utterance]) -> list[str | None]:
    """Carry the action-state record of every action; the communication form "record"."""
    return [action_record(utterance.action, utterance.events) for utterance in said]


def _did(action: str, events: Sequence[Mapping[str, Any]]) -> str:
    """Return calls and hand-offs as text; a hand-off is never cut away by calls beside it."""
    done, passes = [], []
    for event in events:
        if event.get("kind") == "call":
            made = _call(event.get("name", ""), event.get("arguments") or {})
            done.append(f"{made} -> {event.get('status')}")
        elif event.get("kind") == "hand_off":
            passes.append(_call("hand_off", {key: event[key] for key in ("to", "message") if event.get(key)}))
    if done or passes:
        return "; ".join(part for part in (_cut("; ".join(done)), *passes) if part)
    try:  # the round is not over yet: the calls as they are written
        calls = read_calls(action)
    except CallError:
        return _cut("a call that cannot be read")
    written = []
    for call in calls:
        positional = {str(place): value for place, value in enumerate(call.positional)}
        written.append(_call(call.name, {**positional, **call.arguments}))
    return _cut("; ".join(written))


def _call(tool: str, arguments: Mapping[str, Any]) -> str:
    return f"{tool}({', '.join(f'{name}={_short(value)}' for name, value in arguments.items())})"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"


def _cut(text: str) -> str:
    return text if len(text) <= 4 * _MOST_CHARS else text[: 4 * _MOST_CHARS - 1] + "…"
