"""Tools of a real MCP server, over stdio and over streamable HTTP."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from marft_envs import FlexMG
from marft_envs.tasks.tools.connectors.mcp import McpServer
from marft_envs.tasks.tools.definition import ToolDefinitionError, ToolError
from marft_envs.tasks.tools.execution import ToolLimits
from marft_envs.tasks.tools.goals import Goal
from marft_envs.tasks.tools.tasks import ToolTasks
from tests.helpers.dripping_server import dripping
from tests.helpers.needed_package import needed_package
from tests.helpers.toy_bank import bank_task, call, events_of, team_of

needed_package("mcp", "pip install 'marft[mcp]'")
SCRIPT = str(Path(__file__).with_name("mcp_server.py"))
BARE = [sys.executable, str(Path(__file__).with_name("bare_mcp_server.py"))]
STDIO = [sys.executable, SCRIPT, "stdio"]


@pytest.fixture(scope="module")
def address():
    with socket.create_server(("127.0.0.1", 0)) as listening:  # so nobody knocks in vain, nor takes the port
        command = [sys.executable, SCRIPT, str(listening.fileno())]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, pass_fds=[listening.fileno()], **quiet)
        port = listening.getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module", params=["stdio", "http"])
def server(request):
    target = STDIO if request.param == "stdio" else request.getfixturevalue("address")
    made = McpServer("baskets", target, timeout_s=60)  # on a busy machine it starts for long
    yield made
    made.close()


def ask(server: McpServer, name: str, rollout: str = "r1", **arguments):
    return server.ask(name, arguments, caller="a_0", rollout=rollout)


def test_the_tools_are_those_of_the_server(server):
    found = server.tools()
    assert list(found) == ["add", "keep", "fail"]
    assert found["add"].description == "Add an item to the basket."
    assert list(found["add"].parameters["properties"]) == ["item"]
    assert found["add"].signature == "add(item: string)"


def test_rollouts_are_told_apart_in_the_metadata(server):
    assert ask(server, "add", "one", item="pen") == {"result": ["pen of a_0"]}
    assert ask(server, "add", "two", item="ink") == {"result": ["ink of a_0"]}
    assert ask(server, "add", "one", item="cup") == {"result": ["pen of a_0", "cup of a_0"]}


def test_errors_of_tool_and_server_are_told(server, monkeypatch):
    with pytest.raises(ToolError, match="no such thing"):
        ask(server, "fail", how="raise")
    monkeypatch.setattr(server, "timeout_s", 0.2)
    with pytest.raises(ToolError, match="gives no answer"):
        ask(server, "fail", how="wait")


def test_isolated_games_have_a_connection_each():
    server = McpServer("baskets", STDIO, isolated=True, max_connections=2, timeout_s=60)
    try:
        assert ask(server, "keep", "one", item="pen") == {"result": ["pen"]}
        assert ask(server, "keep", "two", item="ink") == {"result": ["ink"]}
        assert ask(server, "keep", "one", item="cup") == {"result": ["pen", "cup"]}
        assert ask(server, "keep", "three", item="x") == {"result": ["x"]}
        assert list(server._pool._open) == ["one", "three"]  # the oldest was closed
    finally:
        server.close()


def test_a_game_is_played_on_a_server(server):
    team = team_of(clerk_0=("add", "fail", "finish"))
    task = bank_task(world="baskets", state={}, answer="1", goal=Goal({}))
    tasks = ToolTasks("baskets", [server], [task], limits=ToolLimits(result_chars=1000)).for_team(team)
    threads = set(threading.enumerate())
    game = FlexMG(tasks, team, horizon=3)
    game.reset(seed=0)
    game.step(call("add", item="pen") + call("add", item=3) + call("fail", how="x") + call("fail", how="huge"))
    game.step(call("keep", item="pen"))
    game.step(call("finish", answer="1"))
    statuses = [event.get("status") for event in events_of(game)]
    assert statuses == ["ok", "invalid", "error", "too long", "unknown", None], events_of(game)
    assert game.episode().success
    assert len(set(threading.enumerate()) - threads) <= 2


def test_a_server_can_be_pickled_while_it_is_open(server):
    server.tools()
    clone = pickle.loads(pickle.dumps(server))
    try:
        assert ask(clone, "add", "other", item="pen") == {"result": ["pen of a_0"]}
    finally:
        clone.close()


def test_a_server_that_is_not_there_is_an_error_of_ours():
    with pytest.raises(Exception, match=r"nowhere|No such file"):
        McpServer("x", ["/nowhere/server"]).tools()


def test_schemas_are_checked(server):
    class Found:
        name, description, title, input_schema = "f", "Do.", None, {"type": "object", "properties": 7}

    with pytest.raises(ToolDefinitionError, match="f: its schema is no JSON Schema"):
        server._tool(Found)


def test_the_text_of_an_embedded_resource_reaches_the_agent():
    server = McpServer("files", [*BARE, "resources"])
    try:
        assert [(name, tool.parallel) for name, tool in server.tools().items()] == [("read", True), ("write", False)]
        assert ask(server, "read") == "downloaded\nthe file\n[resource]\n[image]\n[resource_link]"
    finally:
        server.close()


@pytest.mark.parametrize("kind", ["empty pages", "full pages"])
def test_pages_without_end_have_one_deadline(kind):
    server = McpServer("pages", [*BARE, kind], timeout_s=2)
    try:
        if kind == "full pages":
            assert len(server.tools()) == 1000
        else:
            with pytest.raises(TimeoutError, match="timed out: no whole answer in 2 s"):
                server.tools()
    finally:
        server.close()


def test_progress_without_end_does_not_delay_the_end_of_a_call():
    server = McpServer("slow", [*BARE, "progress"])
    try:
        server.tools()
        server.timeout_s = 0.5
        with pytest.raises(ToolError, match="gives no answer"):
            ask(server, "read")
    finally:
        server.close()


@pytest.mark.parametrize("kind", ["headers", "continue", "body"])
def test_a_server_that_drips_is_late(kind):
    with dripping(kind) as url:
        server = McpServer("files", f"{url}/mcp", timeout_s=0.2)
        with pytest.raises(TimeoutError, match=r"no connection in 0\.4 s"):
            server.tools()
