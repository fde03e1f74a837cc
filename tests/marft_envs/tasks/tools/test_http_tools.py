"""Tools behind a real HTTP server: episodes told apart, errors told, answers bounded."""

from __future__ import annotations

import json
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from marft_envs import FlexMG
from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.connectors.http import HttpCall, http_tool
from marft_envs.tasks.tools.definition import ArgumentError, Tool, ToolDefinitionError, ToolError
from marft_envs.tasks.tools.goals import Goal
from marft_envs.tasks.tools.tasks import ToolTasks
from marft_envs.tasks.tools.world import Toolbox, World
from tests.helpers.dripping_server import KINDS, dripping
from tests.helpers.toy_bank import bank_task, call, events_of, team_of

SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits 40 ms for the receipt of its headers

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        server.seen.append((self.path, body, dict(self.headers)))
        basket = server.baskets.setdefault(self.headers["X-Marft-Rollout"], [])
        if self.path == "/slow":
            server.over.wait(60)
        if self.path == "/busy" and len(server.seen) < 3:
            self._answer(503, b"busy")
        elif self.path == "/wrong":
            self._answer(422, b"no such\nitem")
        elif self.path == "/away":
            self._answer(302, b"", Location="/text")
        elif self.path == "/huge":
            self._answer(200, b"x" * 10_000_000)
        elif self.path == "/text":
            self._answer(200, b"plain \xff text")
        else:
            basket.append(body.get("item"))
            self._answer(200, json.dumps(basket).encode())

    do_GET = do_POST

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None: ...


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_) -> None:
        """Clients that go away are part of the tests."""


@pytest.fixture
def server():
    with QuietServer(("127.0.0.1", 0), Handler) as found:
        found.seen, found.baskets, found.over = [], {}, threading.Event()
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield found
        found.over.set()
        found.shutdown()
        thread.join()


def ask(server, path: str, **options):
    url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    return HttpCall(url, pause_s=0.01, **options)(World({}, caller="a_0", rollout="r1"), item="pen")


def test_arguments_go_out_and_json_or_text_comes_back(server):
    assert ask(server, "/add", headers={"Authorization": "Bearer x"}) == ["pen"]
    path, body, headers = server.seen[0]
    assert (path, body) == ("/add", {"item": "pen"})
    assert (headers["X-Marft-Rollout"], headers["X-Marft-Agent"]) == ("r1", "a_0")
    assert headers["Authorization"] == "Bearer x"
    assert ask(server, "/text") == "plain \N{REPLACEMENT CHARACTER} text"


def test_a_busy_back_end_is_asked_again_with_the_same_key(server):
    assert ask(server, "/busy", retries=2) == ["pen"]
    keys = {headers["Idempotency-Key"] for _, _, headers in server.seen}
    assert (len(server.seen), len(keys)) == (3, 1)


@pytest.mark.parametrize(
    ("path", "options", "message", "tries"),
    [
        ("/wrong", {}, "the back end says 422: no such item", 1),
        ("/busy", {"retries": 1}, "the back end says 503: busy", 2),
        ("/away", {}, "the back end says 302", 1),
        ("/huge", {}, "longer than 65536 bytes", 1),
        ("/slow", {"timeout_s": 0.1, "retries": 0}, "gives no answer", 1),
    ],
)
def test_what_goes_wrong_is_told(server, path: str, options, message: str, tries: int):
    with pytest.raises(ToolError, match=message):
        ask(server, path, **options)
    assert len(server.seen) == tries


@pytest.mark.parametrize("kind", KINDS)
def test_a_back_end_that_drips_is_late_too(kind):
    with dripping(kind) as url, pytest.raises(ToolError, match=r"gives no answer: timed out: .* in 0\.2 s"):
        HttpCall(url, timeout_s=0.2, retries=0)(World({}), item="pen")


def test_a_back_end_that_is_not_there_is_told():
    with pytest.raises(ToolError, match="gives no answer"):
        HttpCall("http://127.0.0.1:9/x", retries=0)(World({}), item="pen")


def test_other_addresses_are_refused():
    with pytest.raises(ToolDefinitionError, match="begins with http"):
        http_tool("f", "Do.", SCHEMA, "file:///etc/passwd")


def test_a_call_can_be_pickled_and_does_not_show_its_secrets():
    made = HttpCall("http://x/", headers={"Authorization": "secret"})
    assert pickle.loads(pickle.dumps(made)) == made
    assert "secret" not in repr(made)


def test_episodes_are_told_apart(server):
    url = f"http://127.0.0.1:{server.server_address[1]}/add"
    box = Toolbox("shop", {"add": http_tool("add", "Add an item.", SCHEMA, url)})
    team = team_of(clerk_0=("add", "finish"))
    tasks = ToolTasks("shop", [box], [bank_task(world="shop", state={}, answer="2", goal=Goal({}))]).for_team(team)
    games = [FlexMG(tasks, team, horizon=4) for _ in range(2)]
    for game in games:
        game.reset(seed=0)
        game.step(call("add", item="pen"))
    for game in games:
        game.step(call("add", item="ink"))
        game.step(call("finish", answer="2"))
        assert [event.get("result") for event in events_of(game)] == ['["pen"]', '["pen", "ink"]', None]
        assert game.episode().success
    assert len(server.baskets) == 2
    assert not any(rollout in game.episode().to_json() for rollout in server.baskets for game in games)


def test_a_schema_makes_us_fetch_nothing(server):
    url = f"http://127.0.0.1:{server.server_address[1]}/text"
    properties = {"a": {"$ref": url}, "b": {"$ref": "#/nowhere"}}
    made = Tool("f", "Do.", {"type": "object", "properties": properties}, print)
    for name in "ab":
        with pytest.raises(ArgumentError, match="f: its schema refers to"):
            made.read_arguments(Call("f", {name: 1}))
    assert server.seen == []
