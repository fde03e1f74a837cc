"""From recorded episodes to a turn file: prompts under D, a scenario on one side, no duplicates, an honest manifest."""

from __future__ import annotations

import dataclasses
import json

import pytest

import envs_data
import marft_envs
from baselines.cli.main import main
from baselines.experiment.gold_answers import oracle_of
from baselines.training_data import from_runs, mining
from baselines.training_data.conditions import Condition
from baselines.training_data.recordings import RecordedEpisode, RecordedTurn, Recording, RecordingError, read_recording
from baselines.training_data.turn_file import TurnFileError, read_turns, write_turns
from marft_envs.data import load_tasks, row_of
from marft_envs.records.files import write_episodes
from marft_envs.records.opentelemetry import write_spans
from marft_envs.tasks.worlds import task_loading

ENV, KEYWORDS = "marft/tools_duo-v0", {"data": "embedded:lookup", "split": "train"}
FLAGS = ["--data", "embedded:lookup", "--split", "train"]
ALL = Condition.read("success")


@pytest.fixture(scope="module")
def env():
    return marft_envs.make(ENV, **KEYWORDS)


def play(env, index, script=None):
    """Return the record of a game that the oracle plays, or a script."""
    say = script or oracle_of(env)
    env.reset(seed=index, options={"index": index})
    for agent in env.agent_iter():
        observation, _, terminated, truncated, _ = env.last()
        env.step(None if terminated or truncated else say(env.unwrapped, agent, observation))
    return env.unwrapped.episode()


@pytest.fixture(scope="module")
def played(env):
    """Three solved games and one that failed."""
    lost = play(env, 5, lambda game, agent, seen: 'read_price(ware="nothing")')
    return [*(play(env, index) for index in range(3)), lost]


def recorded(path, **flags):
    return read_recording(path, lambda env_id: (KEYWORDS, marft_envs.make(env_id, **{**KEYWORDS, **flags})))


@pytest.fixture(scope="module")
def files(played, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    write_episodes(folder / "e.jsonl", played)
    write_episodes(folder / "e.parquet", played)
    write_spans(folder / "spans.jsonl", played, texts=True)
    return folder


@pytest.mark.parametrize("name", ["e.jsonl", "e.parquet", "spans.jsonl"])
def test_turns_of_every_form_of_record_are_those_that_were_played(files, played, name):
    """The prompt is the chat form that the game showed, message by message, with the number of fixed ones."""
    episodes = recorded(files / name).episodes
    assert [episode.facts["success"] for episode in episodes] == [True, True, True, False]
    for episode, record in zip(episodes, played, strict=True):
        assert [turn.agent for turn in episode.turns] == [turn.agent for turn in record.turns]
        for turn, told in zip(episode.turns, record.turns, strict=True):
            assert turn.messages == told.observation.messages
            assert turn.fixed_messages == told.observation.fixed_messages
            assert turn.action == told.action


def test_records_of_another_environment_are_refused(files):
    with pytest.raises(RecordingError, match="give the flags of its environment"):
        recorded(files / "e.jsonl", horizon=3)
    with pytest.raises(KeyError, match="lookup-train"):
        recorded(files / "e.jsonl", split="test")


def test_a_changed_record_is_refused(played, tmp_path):
    turns = (played[0].turns[0]._replace(observation="other"), *played[0].turns[1:])
    write_episodes(tmp_path / "e.jsonl", [dataclasses.replace(played[0], turns=turns)])
    with pytest.raises(RecordingError, match=r"e\.jsonl:1: turn 0: reader_0 sees another text"):
        recorded(tmp_path / "e.jsonl")


def episode(task, problem, *actions, success=True, split="train"):
    turns = tuple(RecordedTurn("a_0", ({"role": "user", "content": problem},), 1, action) for action in actions)
    return RecordedEpisode("place", task, problem, {"success": success, "split": split}, turns)


def recording(tmp_path, *episodes):
    return Recording(tmp_path, "records", "0" * 64, episodes=list(episodes))


def test_a_scenario_is_on_one_side_of_the_split(tmp_path):
    """Also where one problem has two ids, and one id has two texts: the relation is joined."""
    several = [episode(f"t{i}", f"What is {i}?", str(n)) for i in range(8) for n in range(3)]
    several += [
        episode("x1", "What is 0?", "0"),
        episode("x1", "another text", "1"),
        episode("x2", "another  Text", "2"),
    ]
    for seed in range(5):
        found = from_runs.build([recording(tmp_path, *several)], ALL, held_out=0.3, seed=seed)
        sides = {}
        for example in found.examples:
            sides.setdefault(example.task, set()).add(example.split)
        assert all(len(split) == 1 for split in sides.values())
        assert sides["t0"] == sides["x1"] == sides["x2"]
        assert found.manifest["scenarios"] == {"train": 6, "held_out": 2}
    assert from_runs.build([recording(tmp_path, *several)], ALL, held_out=0).manifest["scenarios"]["held_out"] == 0


def test_duplicates_and_empty_actions_are_left_out_and_counted(tmp_path):
    several = [
        episode("t", "p", "same", "same", " ", "<|im_end|>"),
        episode("t", "p", "same"),
        episode("t", "p", "new"),
    ]
    found = from_runs.build([recording(tmp_path, *several)], ALL)
    assert [example.turn.action for example in found.examples] == ["same", "new"]
    assert (found.manifest["duplicates"], found.manifest["empty"]) == (2, 2)


def test_tasks_of_the_test_split_are_refused_unless_allowed(tmp_path):
    several = [episode("a", "p", "x"), episode("b", "q", "y", split="test")]
    with pytest.raises(RecordingError, match=r"1 chosen episodes are of the split 'test'.*--allow-split test"):
        from_runs.build([recording(tmp_path, *several)], ALL)
    allowed = from_runs.build([recording(tmp_path, *several)], ALL, splits=("train", "test"))
    assert allowed.manifest["episodes"] == 2
    with pytest.raises(RecordingError, match="holds for none of the 2 episodes; 2 of them succeeded"):
        from_runs.build([recording(tmp_path, *several)], Condition.read("not success"))


def test_the_command_writes_turns_and_a_manifest_and_prints_no_secret(tmp_path, files, capsys):
    token = "ghp_" + "Zz19" * 9
    lines = (files / "spans.jsonl").read_text().replace("Your tools:", f"Use {token}. Your tools:")
    (tmp_path / "traffic.jsonl").write_text(lines)
    out = tmp_path / "turns.jsonl"
    command = ["data", "from-runs", str(tmp_path / "traffic.jsonl"), "--where", "success", "--out", str(out)]
    assert main(command) == 0
    printed = capsys.readouterr()
    examples, manifest = read_turns(out)
    assert "GitHub token (" in printed.out
    assert token not in printed.out + printed.err + out.read_text()
    assert manifest["secrets"] == {"GitHub token": len(examples) + manifest["duplicates"]}
    assert manifest["origins"][0] | {"sha256": ""} == {
        "path": str(tmp_path / "traffic.jsonl"), "kind": "spans", "sha256": "", "env": None, "keywords": {},
        "episodes": 4, "failed": 0, "chosen": 3,
    }  # fmt: skip
    assert main(command) == 1
    assert "exists already" in capsys.readouterr().err


def test_what_cannot_be_used_of_spans_is_left_out_and_printed_unless_all_is_wanted(tmp_path, files, capsys):
    mixed, out = tmp_path / "mixed.jsonl", tmp_path / "turns.jsonl"
    metrics = json.dumps({"resourceMetrics": [{"resource": {"attributes": ["x" * 100_000]}}]})
    mixed.write_text(metrics + "\n" + (files / "spans.jsonl").read_text())
    command = ["data", "from-runs", str(mixed), "--where", "success", "--out", str(out)]
    assert main([*command, "--strict"]) == 1
    assert "records of resourceMetrics instead of resourceSpans (1" in capsys.readouterr().err
    assert not out.exists()
    assert main(command) == 0
    assert f"{mixed}: left out: 1 records of resourceMetrics" in capsys.readouterr().out
    examples, manifest = read_turns(out)
    assert manifest["origins"][0]["left_out"] == {"records of resourceMetrics instead of resourceSpans": 1}
    assert len(examples) > 0


def test_a_file_that_is_not_that_of_its_manifest_is_refused(tmp_path):
    found = from_runs.build([recording(tmp_path, episode("t", "p", "x"), episode("u", "q", "y"))], ALL)
    path = tmp_path / "turns.jsonl"
    write_turns(path, found.examples, found.manifest)
    assert read_turns(path)[0] == found.examples
    path.write_text(path.read_text().replace('"x"', '"z"'))
    with pytest.raises(TurnFileError, match="is not the file of its manifest"):
        read_turns(path)


@pytest.mark.parametrize(
    "line",
    [
        '{"agent": "a"',
        "[]",
        '{"agent": "a", "prompt": [], "completion": "x"}',
        '{"agent": "a", "prompt": "p", "completion": "", "ended": false}',
        '{"a": "hf_secret"}',
    ],
)
def test_a_line_that_is_no_example_is_named_and_not_shown(tmp_path, line):
    (tmp_path / "t.jsonl").write_text('{"agent": "a", "prompt": "p", "completion": "x"}\n' + line + "\n")
    with pytest.raises(TurnFileError, match=r"t\.jsonl:2: ") as error:
        read_turns(tmp_path / "t.jsonl")
    assert "hf_secret" not in str(error.value)


# ------------------------------------------------------------------ mining and shadow evaluation


@pytest.mark.parametrize("split", ["train", "test", "safety"])
def test_a_task_of_a_world_survives_as_a_row(tmp_path, split):
    tasks = task_loading.load_tasks("embedded", split)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(task_loading.row_of(task)) + "\n" for task in tasks))
    assert task_loading.load_tasks(tmp_path / "rows.jsonl", split) == tasks


@pytest.mark.parametrize("kind", ["math", "gsm8k", "aime", "cmath"])
def test_a_task_of_mathematics_survives_as_a_row(tmp_path, kind):
    tasks = load_tasks(kind, split="test")[::20]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row_of(task)) + "\n" for task in tasks))
    assert load_tasks(kind, str(tmp_path / "rows.jsonl"), "test") == tasks


def test_failures_become_tasks_that_an_environment_plays(files, tmp_path, capsys):
    rows, listed = tmp_path / "rows.jsonl", tmp_path / "list.json"
    command = ["data", "mine", str(files / "spans.jsonl"), "--env", ENV, *FLAGS]
    assert main([*command, "--out", str(rows), "--scenarios", str(listed)]) == 0
    [row] = [json.loads(line) for line in rows.read_text().splitlines()]
    assert (row["failures"], row["attempts"], row["tags"]) == (1, 1, ["truncated"])
    mined = marft_envs.make(ENV, data=str(rows))
    assert play(mined, 0).success
    assert [one["task_id"] for one in json.loads(listed.read_text())["scenarios"]] == [row["id"]]
    assert main(["data", "mine", str(files / "e.jsonl"), *FLAGS, "--out", str(tmp_path / "again.jsonl")]) == 0
    [again] = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert again["tags"][0] == "truncated"
    assert any(tag.startswith("call: ") for tag in again["tags"]), "the record knows which calls failed"
    assert row | {"tags": 0} == again | {"tags": 0}


def test_a_mined_task_of_a_declared_world_declares_it(tmp_path, capsys):
    """Each row alone is a data file of the same tools: the declaration of the ladder's world comes back as it was."""
    flags = {"data": "embedded:ladder", "team": "ladder_duo", "split": "train"}
    game = marft_envs.make(ENV, **flags)
    write_episodes(tmp_path / "e.jsonl", [play(game, index, lambda game, agent, seen: "no call") for index in (0, 400)])
    command = ["data", "mine", str(tmp_path / "e.jsonl")]
    for name, value in flags.items():
        command += [f"--{name}", value]
    assert main([*command, "--out", str(tmp_path / "rows.jsonl")]) == 0
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert {json.loads(line)["level"] for line in lines} == {game.unwrapped.tasks[i].meta["level"] for i in (0, 400)}
    for line in lines:
        row = json.loads(line)
        assert row["tools"] == envs_data.attachment("ladder/tools", "worlds")[0]["tools"]
        (tmp_path / "one.jsonl").write_text(line)
        mined = marft_envs.make(ENV, data=str(tmp_path / "one.jsonl"), team="ladder_duo")
        assert play(mined, 0).success


def test_traces_that_do_not_say_whether_they_succeeded_need_a_condition(files, tmp_path, capsys):
    lines = (files / "spans.jsonl").read_text().replace("marft.success", "app.ok").replace("marft.task.id", "app.case")
    (tmp_path / "foreign.jsonl").write_text(lines)
    command = ["data", "mine", str(tmp_path / "foreign.jsonl"), "--out", str(tmp_path / "rows.jsonl")]
    assert main(command) == 1
    assert "do not record success" in (error := capsys.readouterr().err)
    assert "app.ok" in error
    assert main([*command, "--where", "attributes['app.ok'] == False"]) == 0
    [row] = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert "Write the price of the" in row["problem"]
    assert "1 lack a gold answer" in capsys.readouterr().out


def test_recorded_outcomes_are_one_side_of_a_comparison(files, tmp_path, capsys):
    """A candidate that plays the solution is better than the traffic by the one failed game; the gate sees it."""
    shadow, candidate = tmp_path / "shadow", tmp_path / "candidate"
    assert main(["data", "shadow", str(files / "e.jsonl"), *FLAGS, "--out", str(shadow)]) == 0
    listed = ["--scenarios", str(shadow / "scenarios.json")]
    assert main(["eval", "--env", ENV, *FLAGS, *listed, "--policy", "scripted", "--out", str(candidate)]) == 0
    capsys.readouterr()
    differing = ["--allow-different", "max_turns,temperature,top_k,top_p,max_new_tokens"]
    assert main(["compare", str(shadow), str(candidate), *differing, "--fail-if", "success < 0"]) == 0
    assert "0.250" in capsys.readouterr().out
    assert main(["compare", str(shadow), str(candidate), *differing, "--fail-if", "success > 0.2"]) == 1


def test_several_episodes_of_a_scenario_are_its_samples(env, played, tmp_path):
    lost = dataclasses.replace(played[3], seed=played[3].seed)
    write_episodes(tmp_path / "e.jsonl", [*played, lost])
    found = mining.shadow([recorded(tmp_path / "e.jsonl")], Condition.read("True"))
    assert found.record["scores"] == [[1.0, None], [1.0, None], [1.0, None], [0.0, 0.0]]
    assert found.record["accuracy"] == 0.75


@pytest.mark.parametrize(
    ("flag", "value"), [("--model", "tiny"), ("--dtype", "float32"), ("--engine", "eager"), ("--max-batch", "2")]
)
def test_the_scripted_policy_takes_no_flags_of_a_model(tmp_path, capsys, flag, value):
    command = ["eval", "--env", ENV, *FLAGS, "--policy", "scripted", "--out", str(tmp_path / "x")]
    assert main([*command, flag, value]) == 1
    assert f"--policy scripted plays without a model: leave out {flag}" in capsys.readouterr().err
    url = "http://127.0.0.1:9/v1"
    assert main(["eval", "--env", ENV, "--endpoint", url, "--model", "m", "--out", str(tmp_path / "x"), flag, value])
    wanted = "asks one model" if flag == "--model" else f"{url} plays elsewhere: leave out {flag}, of models that run"
    assert wanted in capsys.readouterr().err
