"""The bridge to verifiers against the real package: a team of two roles, asked over HTTP, paid as a team."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import verifiers.v1 as vf

import marft_envs
from marft_envs.bridges import AgentAssignmentError, to_verifiers
from tests.helpers.fakes import Market

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PACKAGE = """\
{imports}from marft_envs.bridges import to_verifiers

Tasks, Game, Chat = {call}
__all__ = ["Tasks", "Game", "Chat"]
"""


@contextmanager
def model(answer):
    """An OpenAI-compatible endpoint, which fails where there is no answer; yields its address and what it was asked."""
    asked = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body["messages"])
            content = answer(body)
            choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
            reply = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
            reply["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            data = json.dumps(reply).encode()
            self.send_response(400 if content is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
        server.shutdown()


def package(folder, monkeypatch, name, call, imports=""):
    """Write a package of verifiers and return its environment."""
    (folder / f"{name}.py").write_text(PACKAGE.format(imports=imports, call=call))
    monkeypatch.syspath_prepend(folder)
    return vf.load_environment(vf.resolve_env_config({"taskset": {"id": name}}))


def play(env, task, url, monkeypatch):
    monkeypatch.setenv("A_KEY_OF_THE_TEST", "none")
    client = vf.EvalClientConfig(base_url=url, api_key_var="A_KEY_OF_THE_TEST")

    async def episode():
        async with env.serving():
            return await env.run_episode(task, vf.ModelContext(model="scripted", client=client))

    return asyncio.run(episode())


def gold():
    tasks = marft_envs.make("marft/math_duo-v0").unwrapped.tasks
    return tasks[0], tasks[0].answer


def test_each_agent_is_a_role_with_a_trace_and_the_teams_reward(tmp_path, monkeypatch):
    env = package(tmp_path, monkeypatch, "two_roles", "to_verifiers('marft/math_duo-v0')")
    task, answer = gold()
    lines = iter(["Think.", f"\\boxed{{{answer}}}"])
    with model(lambda body: next(lines)) as (url, asked):
        episode = play(env, next(iter(env.taskset)), url, monkeypatch)
    assert [error.message for error in episode.errors] == []
    assert episode.ok
    assert sorted(trace.agent.name for trace in episode.traces) == ["actor_0", "reasoner_0"]
    assert all(trace.reward == 1.0 and trace.metrics["success"] == 1.0 for trace in episode.traces)
    reasoner, actor = asked
    assert [message["role"] for message in reasoner] == ["system", "user"]
    assert task.prompt in reasoner[1]["content"]
    assert "reasoner_0: Think." in actor[1]["content"]


def test_a_partner_plays_an_agent_that_is_no_role(tmp_path, monkeypatch):
    env = package(
        tmp_path, monkeypatch, "one_role", "to_verifiers('marft/math_duo-v0', {'reasoner_0': lambda seen: 'By hand.'})"
    )
    with model(lambda body: "\\boxed{no}") as (url, asked):
        episode = play(env, next(iter(env.taskset)), url, monkeypatch)
    assert [trace.agent.name for trace in episode.traces] == ["actor_0"]
    assert episode.traces[0].reward == 0.0
    assert "reasoner_0: By hand." in asked[0][1]["content"]


def test_a_conversation_of_several_rounds_is_told_only_what_is_new(tmp_path, monkeypatch):
    env = package(tmp_path, monkeypatch, "rounds", "to_verifiers('marft/math_solo-v0', horizon=3)")
    with model(lambda body: f"guess {len(body['messages'])}") as (url, asked):
        episode = play(env, next(iter(env.taskset)), url, monkeypatch)
    assert episode.ok, episode.errors
    assert [len(messages) for messages in asked] == [2, 4, 6]
    first, last = asked[0], asked[-1]
    assert last[:2] == first
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert first[1]["content"] not in last[3]["content"]
    assert last[4]["content"] == "guess 4"


def test_a_role_that_its_limits_stop_ends_the_game_unpaid(tmp_path, monkeypatch):
    env = package(tmp_path, monkeypatch, "limited", "to_verifiers('marft/math_solo-v0', horizon=3)")
    env = vf.load_environment(vf.resolve_env_config({"taskset": {"id": "limited"}, **_limits(env)}))
    with model(lambda body: "guess") as (url, asked):
        episode = play(env, next(iter(env.taskset)), url, monkeypatch)
    assert len(asked) == 1
    assert episode.traces[0].reward == 0.0
    assert episode.ok, episode.errors


def test_an_endpoint_that_fails_is_an_error_and_no_zero(tmp_path, monkeypatch):
    env = package(tmp_path, monkeypatch, "offline", "to_verifiers('marft/math_duo-v0')")
    lines = iter(["Think."])  # for the reasoner; the actor gets none
    with model(lambda body: next(lines, None)) as (url, _):
        episode = play(env, next(iter(env.taskset)), url, monkeypatch)
    assert not episode.ok
    assert "actor_0: upstream 400" in episode.errors[0].message
    assert len(episode.traces) == 2
    assert not any(trace.rewards for trace in episode.traces)


def test_a_game_that_breaks_is_an_error_and_no_zero(tmp_path, monkeypatch):
    broken = "lambda: Broken('step'), {'buyer_0': lambda seen: 'a'}"
    env = package(
        tmp_path, monkeypatch, "broken", f"to_verifiers({broken})", "from tests.helpers.fakes import Broken\n"
    )
    with model(lambda body: "a") as (url, _):
        episode = play(env, next(iter(env.taskset)), url, monkeypatch)
    assert not episode.ok
    assert "the roof fell in" in episode.errors[0].message
    assert not any(trace.rewards for trace in episode.traces)


def test_its_own_command_evaluates(tmp_path):
    (tmp_path / "by_command.py").write_text(PACKAGE.format(imports="", call="to_verifiers('marft/math_duo-v0')"))
    command = [Path(sys.executable).with_name("vf-eval"), "by_command", "-n", "1", "--model", "scripted"]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    settings = os.environ | {"A_KEY_OF_THE_TEST": "none", "PYTHONPATH": path}
    with model(lambda body: f"\\boxed{{{gold()[1]}}}") as (url, _):
        to = ["--client.base-url", url, "--client.api-key-var", "A_KEY_OF_THE_TEST", "--push", "False"]
        subprocess.run([*command, *to, "-o", tmp_path / "out"], env=settings, cwd=tmp_path, check=True, timeout=120)
    (saved,) = (tmp_path / "out").rglob("traces.jsonl")
    (episode,) = map(json.loads, saved.read_text(encoding="utf-8").splitlines())
    assert [trace["rewards"]["team"]["score"] for trace in episode["traces"]] == [1.0, 1.0]


def _limits(env):
    (role,) = [name for name in type(env.config).model_fields if name.endswith("_0")]
    return {role: {"max_turns": 1}}


def test_the_taskset_holds_each_task_once():
    tasks, _, _ = to_verifiers("marft/math_duo-v0")
    found = list(tasks(vf.TasksetConfig(id="any")))
    assert (
        len({task.data.name for task in found})
        == len(found)
        == len(marft_envs.make("marft/math_duo-v0").unwrapped.tasks)
    )
    assert not tasks.INFINITE


def test_a_game_that_is_no_flex_mg_has_a_task_for_each_seed():
    tasks, _, _ = to_verifiers(Market)
    found = tasks(vf.TasksetConfig(id="any"))
    assert tasks.INFINITE
    assert [task.data.seed for task in found.take(3)] == [0, 1, 2]


def test_a_partner_for_no_agent_is_refused():
    with pytest.raises(AgentAssignmentError, match="no agent 'nobody_0'; there are reasoner_0, actor_0"):
        to_verifiers("marft/math_duo-v0", {"nobody_0": str})
