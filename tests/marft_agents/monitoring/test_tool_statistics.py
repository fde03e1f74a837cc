"""Tool calls, selection accuracy and hand-off loops of each agent, counted by hand."""

from __future__ import annotations

import marft_envs
from marft_agents.monitoring.action_statistics import behaviour
from marft_agents.monitoring.tool_statistics import ToolUse, tool_use
from marft_agents.policies.policy import text_action
from marft_agents.policies.scripted import ScriptedPolicy
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.runs.evaluation import evaluate
from marft_agents.trajectory import SampledTurn, Trajectory

CALL = {"kind": "call", "agent": "a", "status": "ok", "expected": True}


def passed(*names):
    return [{"kind": "hand_off", "agent": one, "to": other} for one, other in names]


def episode(*events, agents="abc", failure=None):
    turns = tuple(SampledTurn(agent, text_action("x"), 0.0) for agent in agents)
    game = None if failure else {"outcomes": [{"events": list(events)}, None], "turns": [{"visible": []}] * len(turns)}
    return Trajectory(0, 0, turns, terminated=True, truncated=False, game=game, failure=failure)


def test_calls_failures_and_right_choices():
    wrong = CALL | {"status": "unknown", "expected": False}
    silent = {"kind": "call", "agent": "b", "status": "unreadable"}
    team, agents = tool_use([episode(CALL, CALL | {"status": "error"}, wrong, silent), episode(failure="boom")])
    assert agents["a"] == ToolUse(episodes=1, calls=3, failures=2, choices=3, expected=2)
    assert agents["a"].selection == 2 / 3
    assert agents["b"] == ToolUse(episodes=1, calls=1, failures=1)
    assert agents["b"].selection is None, "no tool could be read: neither right nor wrong"
    assert agents["c"] == ToolUse(episodes=1)
    assert team == ToolUse(episodes=1, calls=4, failures=3, choices=3, expected=2)
    assert team.to_dict()["selection"] == 2 / 3


def test_a_loop_is_more_than_two_passes_between_the_same_two():
    work = passed("ab", "ba")
    assert tool_use([episode(*work)])[0].loops == 0
    found, agents = tool_use([episode(*passed("ca"), *work, *passed("ab"), *passed("bc", "cb", "bc", "cb"))])
    # ca | ab ba ab | bc cb bc cb: two loops
    assert (found.loops, found.handoffs) == (2, 8)
    assert {agent: use.loops for agent, use in agents.items()} == {"a": 1, "b": 2, "c": 1}
    apart = [episode(*work), episode(*work)]  # passes of different episodes make no run
    assert tool_use(apart)[0].loops == 0


def test_metrics_of_an_update():
    found = behaviour([episode(CALL, *passed("ab", "ba", "ab")), episode(CALL | {"expected": False})])
    told = {name: value for name, value in found.items() if name.endswith(("tool_selection", "handoff_loops"))}
    assert told == {
        "team/tool_selection": 0.5,
        "a/tool_selection": 0.5,
        "team/handoff_loops": 0.5,
        "a/handoff_loops": 0.5,
        "b/handoff_loops": 0.5,
        "c/handoff_loops": 0.0,
    }
    unrecorded = Trajectory(0, 0, episode().turns, terminated=True, truncated=False)
    assert not {name for name in behaviour([unrecorded]) if "tool" in name or "handoff" in name}


def test_our_worlds_say_which_tools_are_expected():
    env = marft_envs.make("marft/tools_duo-v0", data="embedded:lookup", horizon=4)
    calls = {
        "reader_0": 'read_price(ware="tube")\nhand_off(to="writer_0")',
        "writer_0": 'throw_away(ware="tube")\nwrite_label(ware="tube")\nhand_off(to="reader_0")',
    }
    [found] = collect(lambda: env, ScriptedPolicy(lambda agent, _: calls[agent]), training_episodes(0, 0, 1, 1), seed=0)
    _, agents = tool_use([found])
    reader, writer = agents["reader_0"], agents["writer_0"]
    assert (reader.choices, reader.selection) == (2, 1.0)
    assert (writer.calls, writer.failures, writer.selection) == (4, 4, 0.5), "a bad argument is no bad choice"
    assert (reader.handoffs, writer.handoffs, reader.loops) == (2, 2, 1)


def test_a_task_without_a_reference_states_no_expected_tool():
    env = marft_envs.make("marft/math_solo-v0", data="embedded:stories")
    found = evaluate(lambda: env, ScriptedPolicy(lambda *_: "f(a=1)"), [{"index": 0}])
    team, _ = found.tools
    assert (team.episodes, team.selection) == (1, None)
