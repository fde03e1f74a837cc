"""The API of programs: what is honoured, and what is refused with the reason."""

from __future__ import annotations

import json
import sys

import pytest

from baselines.experiment.environments import factory
from baselines.gateway.api_errors import ApiError
from baselines.programs import ENVIRONMENT
from baselines.programs.chat_api import read_chat
from baselines.programs.chat_messages import Tools, read_messages, read_tools
from baselines.programs.responses_api import read_response
from marft_agents.policies.scripted import ScriptedPolicy
from marft_agents.rollouts.rollout import collect
from marft_agents.trajectory import EpisodeStart
from tests.helpers import talking_program

AGENTS = ("planner", "coder")
USER = [{"role": "user", "content": "hello"}]
ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object"}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


def chat(**more):
    return {"model": "planner", "messages": USER, **more}


def read(body, *, said=None, ignore=False):
    return read_chat(body, AGENTS, said or {}, ignore=ignore)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (chat(model="boss"), "model: found 'boss', wanted an agent: planner, coder"),
        (chat(n=2), "one answer to a request"),
        (chat(top_logprobs=5), "sampled token alone"),
        (chat(response_format={"type": "json_object"}), "keep no format of JSON"),
        (chat(presence_penalty=0.5), "presence_penalty = 0.5 is not supported"),
        (chat(weather="fine"), "weather = 'fine' is not supported"),
        (chat(max_tokens=0), "max_tokens: found 0, wanted a whole number >= 1"),
        (chat(stop=["a"] * 5), "stop: wanted a text, or a list of at most 4"),
        (chat(messages=[]), "at least one message"),
        (chat(messages=[{"role": "robot", "content": "x"}]), "messages[0]: found role 'robot'"),
        (chat(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), "found a part of type 'image_url'"),
        (chat(messages=[{"role": "user", "content": "\ud800"}]), "lone surrogate"),
        (chat(tools=[{"type": "web_search"}]), "runs no tools of its own"),
        (chat(tools=[{"type": "function", "function": ADD}], tool_choice="always"), "tool_choice: found 'always'"),
    ],
)
def test_a_request_that_cannot_be_done_is_refused_with_the_reason(body, reason):
    with pytest.raises(ApiError) as error:
        read(body)
    assert error.value.status == 400
    assert reason in str(error.value)


def test_what_changes_nothing_is_accepted():
    wanted = read(chat(n=1, seed=3, user="u", store=True, metadata={}, stream=True, frequency_penalty=0, stop=None))
    assert (wanted.agent, wanted.limit, wanted.stop, wanted.sampling) == ("planner", None, (), {})
    assert wanted.prompt.messages == ({"role": "user", "content": "hello"},)


def test_limits_stops_and_sampling_are_read():
    wanted = read(chat(max_completion_tokens=7, stop="END", temperature=1, top_p=0.5))
    assert (wanted.limit, wanted.stop, wanted.sampling) == (7, ("END",), {"temperature": 1.0, "top_p": 0.5})
    assert read(chat(presence_penalty=0.5), ignore=True).agent == "planner"


def test_messages_of_all_kinds_become_a_prompt():
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]},
        {"role": "user", "name": "Ann", "content": "1 + 1?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "2"},
    ]
    wanted = read(chat(messages=messages))
    assert wanted.named == {"call_1"}
    assert [dict(one) for one in wanted.prompt.messages] == [
        {"role": "system", "content": "Be\nbrief."},
        {"role": "user", "content": "1 + 1?", "name": "Ann"},
        {"role": "assistant", "content": CALL},
        {"role": "user", "content": "<tool_response>\n2\n</tool_response>"},
    ]
    sampled = read(chat(messages=messages), said={"call_1": "I add. " + CALL}).prompt.messages[2]["content"]
    assert sampled == "I add. " + CALL  # the very text that was sampled


def test_tools_stand_in_the_system_message_and_calls_come_back():
    tools = read_tools({"tools": [{"type": "function", "function": ADD}], "tool_choice": "required"})
    [system, _] = read_messages({"messages": USER}, tools, {}).messages
    assert system["role"] == "system"
    assert '"name": "add"' in system["content"]
    assert system["content"].endswith("You must call a function now.")
    content, [call] = tools.split(f"I add.\n{CALL}")
    assert (content, call.name, json.loads(call.arguments)) == ("I add.", "add", {"a": 1})


@pytest.mark.parametrize("text", ["no call", '<tool_call>{"name": "sub", "arguments": {}}</tool_call>', "<tool_call>"])
def test_what_is_no_call_of_an_offered_tool_is_content(text):
    assert Tools({"add": ADD}).split(text) == (text, [])
    assert Tools({}).split(CALL) == (CALL, [])


def test_one_call_at_most_where_parallel_ones_are_not_wanted():
    _, calls = Tools({"add": ADD}, parallel=False).split(f"{CALL}\n{CALL}")
    assert len(calls) == 1


def test_responses_map_onto_chat():
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "1 + 1?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "2"},
    ]
    body = {"model": "coder", "input": items, "instructions": "Be brief.", "tools": [{"type": "function", **ADD}]}
    wanted, messages = read_response(body, AGENTS, {}, {}, ignore=False)
    assert wanted.prompt.messages[0]["content"].startswith("Be brief.\n\n# Tools")
    assert [one["content"] for one in messages] == ["1 + 1?", CALL, "<tool_response>\n2\n</tool_response>"]
    further = {"model": "coder", "input": "and?", "previous_response_id": "r1"}
    wanted, messages = read_response(further, AGENTS, {}, {"r1": messages}, ignore=False)
    assert (wanted.named, len(messages)) == ({"r1"}, 4)
    with pytest.raises(ApiError, match="wanted one of this episode"):
        read_response(further, AGENTS, {}, {}, ignore=False)


# ------------------------------------------------------------------ over HTTP


def ask(tmp_path, policy, *steps, **settings):
    """Play one episode of raw requests; return its trajectory and the replies."""
    file, out = tmp_path / "data.jsonl", tmp_path / "seen"
    file.write_text(json.dumps({"steps": list(steps), "reward": 1, "write": str(out)}))
    program = f"{sys.executable} -I -S {talking_program.__file__}"
    env = factory(ENVIRONMENT, {"program": program, "agents": list(AGENTS), "data": str(file), **settings})()
    [found] = collect(lambda: env, policy, [EpisodeStart(0, 0, 0)], seed=0)
    env.unwrapped.programs.close()
    return found, json.loads(out.read_text())["seen"] if out.exists() else []


def test_calls_streams_responses_and_errors_over_http(tmp_path):
    tools = [{"type": "function", "function": ADD}]
    found, [called, streamed, response, wrong, models, lost, embedding] = ask(
        tmp_path,
        ScriptedPolicy(lambda agent, _: CALL if agent == "planner" else "two"),
        {"raw": chat(tools=tools)},
        {"raw": chat(model="coder", stream=True, stream_options={"include_usage": True})},
        {"raw": {"model": "coder", "input": "hello"}, "path": "/responses"},
        {"raw": chat(n=3)},
        {"raw": None, "path": "/models"},
        {"raw": chat(), "key": "another"},
        {"raw": {"model": "coder", "input": "x"}, "path": "/embeddings"},
    )
    assert found.failure is None
    assert [turn.agent for turn in found.turns] == ["planner", "coder", "coder"]
    [choice] = called["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1}'}
    assert found.turns[0].action.text == CALL
    chunks = [json.loads(line[6:]) for line in streamed.split("\n\n") if line.startswith("data: {")]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == "two"
    assert chunks[-1]["usage"]["completion_tokens"] == 0  # a script has no tokens
    assert response["output"][0]["content"][0]["text"] == "two"
    assert wrong["error"]["param"] == "n"
    assert [model["id"] for model in models["data"]] == list(AGENTS)
    assert lost["error"]["code"] == "invalid_api_key"
    assert embedding["error"]["code"] == "unsupported_endpoint"


def test_a_seed_is_passed_over_and_said_once(tmp_path):
    policy = ScriptedPolicy(lambda *_: "yes")
    with pytest.warns(UserWarning, match="names a seed") as told:
        found, replies = ask(tmp_path, policy, *[{"raw": chat(seed=number)} for number in range(3)])
    assert (len(found.turns), len(replies)) == (3, 3)
    assert len(told) == 1
