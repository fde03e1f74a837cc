"""Tool files: worlds of a real HTTP server and a real MCP server, played, trained on; and every mistake is named."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import pytest

import marft_envs
from baselines.cli.main import main
from baselines.experiment.gold_answers import oracle_of
from marft_envs.game.task import JudgeFailure
from marft_envs.tasks.tools.connectors.tool_file import ToolFile, ToolFileError
from marft_envs.teams.profile import TeamError
from tests.helpers.needed_package import needed_package
from tests.marft_envs.tasks.tools.tool_backend import backend

needed_package("mcp", "pip install 'marft[mcp]'")
SCRIPT = str(Path(__file__).with_name("mcp_server.py"))
OWNERS = """
[owners]
reader_0 = ["find_room"]
writer_0 = ["book", "finish"]
"""


def hotel(
    url: str, more: str = "", *, result: str = "room.type = 'integer'", path: str = "/find_room", timeout_s: float = 60
) -> str:
    return f"""
name = "hotel"

[[http]]
name = "find_room"
description = "Find a free room."
url = "{url}{path}"
timeout_s = {timeout_s}
retries = 0
[http.parameters]
type = "object"
required = ["beds"]
properties.beds.type = "integer"
[http.result]
type = "object"
required = ["room"]
properties.{result}

[[http]]
name = "book"
description = "Book a room."
url = "{url}/book"
[http.parameters]
type = "object"
properties.room.type = "integer"
properties.guest.type = "string"
{more}

[[task]]
id = "one"
prompt = "Book a room with one bed for Ann. Finish with its number."
answer = "7"
split = "train"
calls = [{{tool = "find_room", arguments = {{beds = 1}}}}, {{tool = "book", arguments = {{room = 7, guest = "Ann"}}}}]

[[task]]
id = "two"
prompt = "Find a room with two beds. Finish with its number."
answer = "12"
calls = [{{tool = "find_room", arguments = {{beds = 2}}}}]
"""


@pytest.fixture
def server():
    with backend() as running:
        yield running


@pytest.fixture
def write(tmp_path):
    def written(text: str) -> str:
        (tmp_path / "hotel.toml").write_text(text)
        return str(tmp_path / "hotel.toml")

    return written


def play(env, *actions):
    """Play actions, or the scripted team; return the record."""
    env.reset(seed=0, options={"index": 0})
    oracle, left = oracle_of(env), list(actions)
    for agent in env.agent_iter():
        _, _, terminated, truncated, _ = env.last()
        action = left.pop(0) if actions else oracle(env.unwrapped, agent, "")
        env.step(None if terminated or truncated else action)
        if not left and actions:
            break
    return env.unwrapped.episode()


def events_of(record):
    return [event for outcome in record.outcomes for event in outcome.events]


# ---------------------------------------------------------------------- played


@pytest.mark.parametrize(("team", "owners"), [("solo", ""), ("duo", OWNERS)])
def test_a_team_plays_on_http_endpoints(server, write, team, owners):
    env = marft_envs.make(f"marft/tools_{team}-v0", tools=write(hotel(server.url, owners)))
    assert [task.id for task in (env.unwrapped.tasks[place] for place in range(2))] == ["one", "two"]
    record = play(env)
    assert record.success
    assert [(path, given) for path, given, _ in server.seen] == [
        ("/find_room", {"beds": 1}),
        ("/book", {"room": 7, "guest": "Ann"}),
    ]
    held_out = marft_envs.make(f"marft/tools_{team}-v0", tools=env.unwrapped.tasks.file.where, split="test")
    assert [task.id for task in (held_out.unwrapped.tasks[0],)] == ["two"]
    assert not play(env, "finish(answer='8')" if team == "solo" else "hand_off(to='writer_0')").success
    assert env.unwrapped.metadata["slow_step"]


def test_endpoints_that_may_get_the_calls_of_a_turn_at_the_same_time(server, write):
    server.together = threading.Barrier(2)
    text = hotel(server.url, path="/meet", result="room.type = 'string'").replace('required = ["room"]', "")
    env = marft_envs.make(
        "marft/tools_solo-v0", tools=write(text.replace("retries = 0", "retries = 0\nparallel = true"))
    )
    record = play(env, "find_room(beds=1)\nfind_room(beds=2)")
    assert [(event["status"], event["arguments"]) for event in events_of(record)] == [
        ("ok", {"beds": 1}),
        ("ok", {"beds": 2}),
    ]


def test_a_world_of_endpoints_and_servers_conforms_and_wins_from_the_command_line(server, write, capsys):
    more = f'[[mcp]]\ncommand = ["{sys.executable}", "{SCRIPT}", "stdio"]\ntools = ["keep"]\ntimeout_s = 60\n'
    task = """
[[task]]
id = "keep"
prompt = "Keep the pen."
calls = [{tool = "keep", arguments = {item = "pen"}}]
split = "mcp"
"""
    flags = ["--tools", write(hotel(server.url, more) + task)]
    assert main(["check", "marft/tools_solo-v0", "--quick", *flags]) == 0
    assert main(["play", "marft/tools_solo-v0", *flags, "--split", "mcp", "--index", "1"]) == 0
    assert '"pen"' in (said := capsys.readouterr().out)
    assert "team reward 1;" in said


def test_tasks_come_from_data_too(server, write, tmp_path):
    row = {"id": "a", "world": "hotel", "instruction": "Say 3.", "database": {}, "goal": {}, "calls": [], "answer": "3"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    env = marft_envs.make("marft/tools_solo-v0", tools=write(hotel(server.url)), data=str(tmp_path / "rows.jsonl"))
    assert play(env).success
    (tmp_path / "rows.jsonl").write_text(json.dumps(row | {"world": "shop"}))
    with pytest.raises(ValueError, match="task 'a' is played in 'shop'; worlds are hotel"):
        marft_envs.make("marft/tools_solo-v0", tools=write(hotel(server.url)), data=str(tmp_path / "rows.jsonl"))


def test_evaluation_and_training_take_the_file(server, write, tmp_path):
    tiny = ["--model", "tiny", "--max-new-tokens", "4", "--horizon", "2", "--tools", write(hotel(server.url))]
    assert main(["eval", "--env", "marft/tools_solo-v0", *tiny, "--out", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert (found["accuracy"], found["failures"]) == (0.0, 0)
    assert found["settings"]["tasks"] == "hotel"
    small = ["--updates", "1", "--groups", "1", "--group-size", "2", "--out", str(tmp_path / "run")]
    assert main(["train", "--env", "marft/tools_solo-v0", *tiny, *small]) == 0


def test_headers_come_from_the_environment_and_stay_out_of_records(server, write, monkeypatch):
    text = hotel(server.url).replace("retries = 0", 'retries = 0\nheaders_env = {Authorization = "HOTEL_KEY"}')
    with pytest.raises(ToolFileError, match="http 'find_room': headers_env: the environment variable HOTEL_KEY is not"):
        marft_envs.make("marft/tools_solo-v0", tools=write(text))
    monkeypatch.setenv("HOTEL_KEY", "secret")
    record = play(marft_envs.make("marft/tools_solo-v0", tools=write(text)))
    assert server.seen[0][2]["Authorization"] == "secret"
    assert "secret" not in record.to_json()


# --------------------------------------------------- back ends that misbehave


@pytest.mark.parametrize(
    ("path", "timeout_s", "said"),
    [("/stall", 0.2, "gives no answer"), ("/huge", 60, "longer than 65536 bytes")],
)
def test_a_back_end_that_stalls_or_talks_too_much_costs_its_caller_an_error(server, write, path, timeout_s, said):
    tools = write(hotel(server.url, path=path, timeout_s=timeout_s))
    env = marft_envs.make("marft/tools_solo-v0", tools=tools, limits={"timeout_s": 60})
    began = time.monotonic()
    (event,) = events_of(play(env, "find_room(beds=1)"))
    assert event["status"] == "error"
    assert said in event["result"]
    assert time.monotonic() - began < 60


def test_a_back_end_that_breaks_its_schema_fails_the_episode_with_the_cause(server, write):
    tools = write(hotel(server.url, path="/lie"))
    env = marft_envs.make("marft/tools_solo-v0", tools=tools)
    with pytest.raises(JudgeFailure, match=r"returned .*seven.*, which is not what its schema declares: \['room'\]"):
        play(env, "find_room(beds=1)")
    with marft_envs.make_vec("marft/tools_solo-v0", 1, tools=tools) as games:
        games.reset(seeds=0)
        games.step({0: "find_room(beds=1)"}, wait="all")
        assert "BrokenSchemaError" in games.ended[0].failure


def test_a_server_that_breaks_its_schema_fails_the_episode(write, tmp_path):
    (tmp_path / "liar.py").write_text(LIAR)
    text = f'[[mcp]]\ncommand = ["{sys.executable}", "{tmp_path / "liar.py"}"]\ntimeout_s = 60\n'
    env = marft_envs.make("marft/tools_solo-v0", tools=write(text + '[[task]]\nid = "a"\nprompt = "p"\n'))
    with pytest.raises(JudgeFailure, match="tool 'lie' of hotel: Invalid structured content"):
        play(env, "lie()")


LIAR = """
import json, sys

schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
tool = {"name": "lie", "description": "Lie.", "inputSchema": {"type": "object"}, "outputSchema": schema}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        info = {"name": "liar", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [tool]}
    elif asked["method"] == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": "many"}}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"""


# -------------------------------------------------------------------- bad files


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name = \"hotel\"", "nmae = \"hotel\"", "unknown key 'nmae'; did you mean name"),
        ("description = \"Find", "descripton = \"Find", "unknown key 'descripton'; did you mean description"),
        ("description = \"Find a free room.\"", "", r"http\[0\]: the key 'description' is missing"),
        ("timeout_s = 60", "timeout_s = \"long\"", r"http\[0\]: timeout_s: found 'long', wanted a number"),
        ("retries = 0", "retries = true", "retries: found True, wanted a whole number"),
        ("type = \"object\"\nrequired = [\"beds\"]", "type = 7", "parameters: its schema is no JSON Schema"),
        ("type = \"object\"\nrequired = [\"beds\"]", "", "its parameters must be the JSON Schema of an object"),
        ("required = [\"room\"]", "required = 3", "http 'find_room': result: its schema is no JSON Schema"),
        ("url = \"http://127", "url = \"ftp://127", "found the address 'ftp://127"),
        ("name = \"book\"", "name = \"find_room\"", "two tools are called 'find_room'"),
        ("name = \"book\"", "name = \"book a room\"", "a name is 1 to 64 letters"),
        ("answer = \"7\"", "answer = 7", r"task\[0\]: answer: found 7, wanted a text"),
        ("tool = \"book\"", "toll = \"book\"", "task 'one': found the call"),
        ("id = \"two\"", "id = \"one\"", "two tasks have the id 'one'"),
        ("[[task]]", "[limits]\ntimeout = 3\n[[task]]", "limits: .*unexpected keyword argument 'timeout'"),
        ("[[task]]", "[[task", "is no TOML"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_named(server, write, old, new, message):
    text = hotel(server.url)
    assert old in text
    with pytest.raises(ValueError, match=message):
        marft_envs.make("marft/tools_solo-v0", tools=write(text.replace(old, new, 1)))


def test_what_is_not_there_is_named(server, write, tmp_path):
    with pytest.raises(ToolFileError, match=r"nowhere\.toml cannot be read: No such file"):
        marft_envs.make("marft/tools_solo-v0", tools="nowhere.toml")
    with pytest.raises(ToolFileError, match="found no tool"):
        ToolFile.read({"name": "empty"})
    text = hotel(server.url).replace('id = "two"', 'id = "two"\nsplit = "test"')
    with pytest.raises(ToolFileError, match=r"no task of the split 'safety' \(found test, train\); add"):
        marft_envs.make("marft/tools_solo-v0", tools=write(text), split="safety")
    with pytest.raises(ToolFileError, match=r"nothing answers at 127\.0\.0\.1:9 .*; start it, or set probe = "):
        marft_envs.make("marft/tools_solo-v0", tools=write(hotel("http://127.0.0.1:9")))
    with pytest.raises(TypeError, match="unknown keyword 'tools'"):
        marft_envs.make("marft/math_solo-v0", tools=write(hotel(server.url)))


def test_a_server_that_gives_no_tools_is_named(write):
    for entry, message in (
        (f'command = ["{sys.executable}", "-c", "pass"]', "gives no tools: .*Connection closed"),
        ('url = "http://127.0.0.1:9/mcp"\ntimeout_s = 2', "gives no tools: ConnectError"),
        ("timeout_s = 1", "wanted either command or url, found none"),
        (
            f'command = ["{sys.executable}", "{SCRIPT}", "stdio"]\ntools = ["kep"]\ntimeout_s = 60',
            "has no tool 'kep'; did",
        ),
    ):
        with pytest.raises(ToolFileError, match=message):
            marft_envs.make("marft/tools_solo-v0", tools=write(f"[[mcp]]\n{entry}\n"))


@pytest.mark.slow
def test_a_server_that_never_answers_ends_within_bounded_time(write):
    began = time.monotonic()
    text = f'[[mcp]]\ncommand = ["{sys.executable}", "-c", "import time; time.sleep(600)"]\ntimeout_s = 0.5\n'
    with pytest.raises(ToolFileError, match="gives no tools: TimeoutError: no connection in 1 s"):
        marft_envs.make("marft/tools_solo-v0", tools=write(text))
    assert time.monotonic() - began < 60


def test_owners_are_checked(server, write):
    for owners, message in (
        ("", r"the profiles of the team 'duo' name tools of other worlds; say in \[owners\]"),
        ('[owners]\nreader_1 = ["book"]', "owners: the team 'duo' has no agent 'reader_1'; did you mean reader_0"),
        (
            '[owners]\nreader_0 = ["boook"]\nwriter_0 = ["*"]',
            "no world has a tool 'boook'; did you mean book",
        ),
        ('[owners]\nreader_0 = ["book"]', "no agent of the team 'duo' owns 'finish'"),
    ):
        with pytest.raises(TeamError, match=message):
            marft_envs.make("marft/tools_duo-v0", tools=write(hotel(server.url, owners)))
