"""Scenario lists: the checksum sees every change, lists play exactly, other data are refused."""

import json

import pytest

import marft_envs
from baselines.cli.main import main
from baselines.experiment import scenario_lists
from baselines.experiment.environments import scenarios
from baselines.experiment.evaluation import WITHOUT_MODEL, EvaluationSettings, Players, run_evaluation
from baselines.experiment.scenario_lists import Scenario, ScenarioList, ScenarioListError, scenario_list
from marft_agents.generation.sampling import SamplingParams
from tests.helpers.fakes import Probe

DUO, SOLO, TRIO = (f"marft/gsm8k_{size}-v0" for size in ("duo", "solo", "trio"))
TINY = ["--data", "embedded:stories", "--model", "tiny", "--max-new-tokens", "2"]


@pytest.fixture(scope="module")
def env():
    return marft_envs.make(DUO, data="embedded:stories", split="test")


@pytest.fixture
def listed(env):
    return scenario_list(env, scenarios(env, 4), DUO)


def test_a_list_names_tasks_and_their_cohorts(env, listed):
    tasks = env.unwrapped.tasks
    assert [one.task_id for one in listed.scenarios] == [tasks[i].id for i in (0, 50, 100, 150)]
    assert [one.seed for one in listed.scenarios] == [0, 1, 2, 3], "the seeds of marft eval"
    assert listed.cohorts["level"] == [tasks[i].meta["level"] for i in (0, 50, 100, 150)]
    assert set(listed.cohorts) == {"level", "subject"}


def test_teams_of_any_size_play_a_list(env, listed):
    solo = marft_envs.make(SOLO, data="embedded:stories", split="test")
    options = listed.options(solo, SOLO)
    assert options == [{"index": i, "seed": s} for i, s in zip((0, 50, 100, 150), range(4), strict=True)]
    assert scenario_list(solo, options, SOLO).checksum == listed.checksum
    named = [{"task_id": one.task_id, "seed": one.seed} for one in listed.scenarios]
    assert scenario_list(solo, named, SOLO) == listed


def test_what_is_written_is_read(listed, tmp_path):
    listed.write(tmp_path / "list.json")
    assert scenario_lists.read(tmp_path / "list.json") == listed


def test_an_evaluation_writes_the_list_that_it_played(env, tmp_path):
    file, keywords = str(tmp_path / "list.json"), {"data": "embedded:stories", "split": "test"}
    settings = EvaluationSettings(DUO, keywords, limit=1, save_scenarios=file, policy="random")
    players = Players(WITHOUT_MODEL["random"](), SamplingParams(), None, None)
    run_evaluation(settings, tmp_path / "out", lambda _: players)
    assert scenario_lists.read(tmp_path / "list.json") == scenario_list(env, scenarios(env, 1), DUO)


@pytest.mark.parametrize(("number", "found"), [({"seeds": ()}, "seeds: found none"), ({"num_envs": 0}, "found 0")])
def test_an_evaluation_of_nothing_is_refused_before_it_loads(number, found):
    with pytest.raises(ValueError, match=f"{found}, wanted at least 1|{found}, wanted at least one"):
        EvaluationSettings(DUO, **number)


def test_the_checksum_is_the_same_everywhere():
    known = ScenarioList("gsm8k", None, (Scenario("größe", 1), Scenario(None, 2)), {})
    assert known.checksum == "sha256:ef49c69f01984c6bea85383d8e4de84f6d512d8f47e7e72d25ce328f0ddc11e8"


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["scenarios"][0].update(seed=7),
        lambda r: r["scenarios"][0].update(task_id="stories-test-00001"),
        lambda r: r["scenarios"].reverse(),
        lambda r: r.update(tasks="math"),
        lambda r: r.update(content="sha256:0"),
        lambda r: r.update(checksum="sha256:0"),
    ],
)
def test_a_changed_file_is_refused(listed, tmp_path, change):
    path = tmp_path / "list.json"
    listed.write(path)
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ScenarioListError, match=r"list\.json: the checksum of the content is .*was changed"):
        scenario_lists.read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "found list, wanted a scenario list"),
        ('{"schema": "other"}', "found schema 'other', wanted a scenario list"),
        ('"scenarios": []', "wanted a list with at least one"),
        ('"scenarios": [{"task_id": "a", "seed": -1}]', r"scenarios\[0\]: found .* wanted .*NUMBER >= 0"),
        ('"scenarios": [{"task_id": "a", "seed": true}]', r"scenarios\[0\]"),
        ('"scenarios": [{"task_id": 3, "seed": 1}]', r"scenarios\[0\]"),
        ('"scenarios": [3]', r"scenarios\[0\]"),
        ('"cohorts": {"level": [1]}', "cohorts: wanted a list of 4 values"),
        ('"tasks": 3', "tasks and content: wanted texts"),
    ],
)
def test_bad_files_are_refused(listed, tmp_path, text, message):
    path = tmp_path / "list.json"
    listed.write(path)
    if text.startswith('"'):
        record = json.loads(path.read_text(encoding="utf-8")) | json.loads("{" + text + "}")
        text = json.dumps(record)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioListError, match=message):
        scenario_lists.read(path)
    with pytest.raises(ScenarioListError, match="cannot be read: No such file"):
        scenario_lists.read(tmp_path / "none.json")


def test_other_tasks_are_refused(listed):
    train = marft_envs.make(DUO, data="embedded:stories", split="train")
    with pytest.raises(ScenarioListError, match=r"4 of 4 tasks .* the first: 'stories-test-00000'; wanted the --data"):
        listed.options(train, DUO)
    cmath = marft_envs.make("marft/cmath_duo-v0")
    with pytest.raises(ScenarioListError, match="tasks 'gsm8k', this environment plays 'cmath'"):
        listed.options(cmath, "marft/cmath_duo-v0")


def test_tasks_that_changed_under_their_ids_are_refused(tmp_path):
    lists = []
    for answer in ("4", "5"):
        path = tmp_path / f"{answer}.jsonl"
        path.write_text(json.dumps({"id": "one", "question": "2 + 2?", "answer": f"#### {answer}"}), encoding="utf-8")
        env = marft_envs.make(DUO, data=str(path))
        lists.append((scenario_list(env, [{"index": 0}], DUO), env))
    (four, _), (_, five) = lists
    with pytest.raises(ScenarioListError, match="other prompts or gold answers"):
        four.options(five, DUO)


def test_games_without_tasks_are_listed_by_their_seeds():
    env = Probe()
    listed = scenario_list(env, scenarios(env, 3), "my/probe-v0")
    assert listed.scenarios == (Scenario(None, 0), Scenario(None, 1), Scenario(None, 2))
    assert listed.options(env, "my/probe-v0") == [{"seed": 0}, {"seed": 1}, {"seed": 2}]
    with pytest.raises(ScenarioListError, match="tasks 'my/probe-v0', this environment plays 'my/probe-v1'"):
        listed.options(env, "my/probe-v1")


# ------------------------------------------------------------------ command line


def evaluation(folder):
    return json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))


def test_eval_saves_and_plays_a_list(tmp_path, capsys):
    file = tmp_path / "list.json"
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    flags = ["--limit", "3", "--save-scenarios", str(file), "--out", str(one)]
    assert main(["eval", "--env", DUO, *TINY, *flags]) == 0
    assert main(["eval", "--env", DUO, *TINY, "--scenarios", str(file), "--out", str(two)]) == 0
    assert (one / "episodes.jsonl").read_bytes() == (two / "episodes.jsonl").read_bytes(), "the same games"
    record = evaluation(two)
    assert record["scenario_checksum"] == evaluation(one)["scenario_checksum"] == scenario_lists.read(file).checksum
    assert [len(values) for values in record["cohorts"].values()] == [3, 3]
    assert [len(row) for row in record["tokens"]] == [1, 1, 1]
    assert record["settings"]["horizon"] == 1
    config = ["--config", str(two / "evaluation.json"), "--out", str(three)]
    assert main(["eval", *config]) == 0
    again = evaluation(three)
    assert again.pop("ledger")["episodes"] == record.pop("ledger")["episodes"]  # its seconds differ
    assert again == record, "an evaluation of a list repeats it"
    capsys.readouterr()
    both = ["--scenarios", str(file), "--limit", "1", "--out", str(tmp_path / "four")]
    assert main(["eval", "--env", DUO, *TINY, *both]) == 1
    assert "leave out --limit" in capsys.readouterr().err
    other = ["--split", "train", "--scenarios", str(file), "--out", str(tmp_path / "no")]
    assert main(["eval", "--env", TRIO, *TINY, *other]) == 1
    assert "3 of 3 tasks of the scenario list" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
