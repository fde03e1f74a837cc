"""The bridge to OpenEnv against the real package: clients step games over a local socket."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn
from openenv.core import GenericEnvClient

import marft_envs
from marft_envs.bridges import AgentAssignmentError, to_openenv
from tests.helpers.fakes import Broken

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

DUO = "marft/math_duo-v0"


@contextmanager
def served(app):
    """Serve an application at a free port of this machine; yields its address."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def client(address):
    return GenericEnvClient(base_url=address).sync()


def test_a_client_plays_a_game():
    task = marft_envs.make(DUO).unwrapped.tasks[3]
    app = to_openenv(DUO, "actor_0", {"reasoner_0": lambda seen: "Add them."})
    with served(app) as address, client(address) as env:
        start = env.reset(seed=0, task_id=task.id, episode_id="one")
        assert task.prompt in start.observation["text"]
        assert start.observation["messages"][-1] == {"role": "user", "content": "Add them.", "name": "reasoner_0"}
        assert not start.done
        end = env.step({"text": f"\\boxed{{{task.answer}}}"})
        assert (end.done, end.reward) == (True, 1.0)
        assert end.observation["infos"]["success"] == 1.0
        assert env.state() == {"episode_id": "one", "step_count": 1}


def test_sessions_do_not_disturb_each_other():
    app = to_openenv("marft/math_solo-v0", "actor_0", horizon=2)
    with served(app) as address, client(address) as left, client(address) as right:
        first = left.reset(seed=1).observation["text"]
        second = right.reset(seed=2).observation["text"]
        assert left.step({"text": "left speaks"}).observation["text"].startswith(first)
        assert "left speaks" not in right.step({"text": "right speaks"}).observation["text"]
        assert first != second
        assert left.reset(seed=2).observation["text"] == second


def test_a_broken_game_is_an_error_and_the_session_goes_on():
    app = to_openenv(lambda: Broken("step"), "buyer_0", {"seller_0": lambda seen: "a"})
    with served(app) as address, client(address) as env:
        env.reset(seed=0)
        with pytest.raises(RuntimeError, match="the roof fell in"):
            env.step({"text": "a"})
        assert "digit" in env.reset(seed=1).observation["text"]
        with pytest.raises(RuntimeError, match="Invalid message"):
            env.step({"words": "a"})


def test_wrong_agents_are_said_before_anything_is_served():
    with pytest.raises(AgentAssignmentError, match="nobody plays reasoner_0"):
        to_openenv(DUO, "actor_0")
