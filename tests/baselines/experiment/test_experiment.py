"""`from baselines import Experiment`: the front door in Python does what `marft train` does."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch

from baselines import Experiment, evaluate, report
from baselines.cli import train
from baselines.cli.main import build_parser, main
from baselines.cli.train import experiment_of
from baselines.experiment.config_trust import UntrustedConfigError
from baselines.experiment.progress import Ended, Started, Updated
from marft_agents.generation.sampling import SamplingParams
from marft_agents.monitoring.alarms import Alarm
from marft_agents.rollouts.rollout_settings import RolloutSettings
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.run_folder import read_metrics
from marft_agents.setting_fields import SettingsError
from marft_envs import TaskSet, Team, register_task

DUO = "marft/gsm8k_duo-v0"
SMALL = {"groups": 1, "group_size": 2, "max_new_tokens": 2}
FLAGS = ["--env", DUO, "--data", "embedded:stories", "--model", "tiny", "--device", "cpu"]
FLAGS += ["--groups", "1", "--group-size", "2", "--max-new-tokens", "2"]
STORIES = {"split": "train", "data": "embedded:stories"}


def small(**settings):
    return Experiment(DUO, keywords=STORIES, models="tiny", **SMALL, **settings)


def timeless(run):
    return [
        {k: v for k, v in line.items() if "seconds" not in k and "per_second" not in k} for line in read_metrics(run)
    ]


def test_it_makes_the_experiment_of_the_flags():
    flags = [*FLAGS, "--algorithm", "grpo", "--updates", "3", "--policy-lr", "0.01", "--kl-stop", "none"]
    told = build_parser().parse_args(["train", *flags])
    assert small(algorithm="grpo", updates=3, policy_lr=0.01, kl_stop=None) == experiment_of(told)


def test_a_run_resumes_and_equals_that_of_the_command(tmp_path):
    events = []
    small(updates=1).run(tmp_path / "python", events.append)
    assert [type(event) for event in events if not isinstance(event, Alarm)] == [Started, Updated, Ended]
    assert str(events[0]) == "training of reasoner_0, actor_0 for 1 updates"
    longer = small(updates=2)
    with pytest.raises(RunFolderError, match="already holds a run"):
        longer.run(tmp_path / "python")
    assert longer.run(tmp_path / "python", resume=True)["updates"] == 2
    assert main(["train", *FLAGS, "--updates", "2", "--out", str(tmp_path / "command")]) == 0
    assert timeless(tmp_path / "python") == timeless(tmp_path / "command")
    files = [{path.name for path in (tmp_path / name).glob("[!e]*")} for name in ("python", "command")]
    assert files[0] == files[1] >= {"config.json", "versions.json", "metrics.jsonl", "checkpoints", "curve.png"}
    texts = [(tmp_path / name / "episodes.jsonl").read_text().splitlines() for name in ("python", "command")]
    assert [len(lines) for lines in texts] == [4, 4]
    records = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("python", "command")]
    assert records[0] == records[1]
    page = report.write(tmp_path / "python")
    assert page == tmp_path / "python" / "report.html"
    assert b"<html" in page.read_bytes()[:200]


def without_clock(folder):
    """Return the lines of evaluation.json without those of its two clocks."""
    lines = (folder / "evaluation.json").read_text().splitlines()
    kept = [line for line in lines if '"seconds_generation"' not in line and '"seconds_environment"' not in line]
    assert len(lines) == len(kept) + 2
    return kept


def test_an_evaluation_equals_that_of_the_command(tmp_path):
    run = tmp_path / "run"
    small(updates=1, temperature=0.5).run(run)
    flags = ["--env", DUO, "--data", "embedded:stories", "--device", "cpu", "--checkpoint", str(run), "--limit", "3"]
    assert main(["eval", *flags, "--seeds", "0,1", "--out", str(tmp_path / "command")]) == 0
    found = evaluate(run, tmp_path / "python", limit=3, seeds=(0, 1), device=torch.device("cpu"))
    assert found.scores.shape == (3, 2)
    assert without_clock(tmp_path / "python") == without_clock(tmp_path / "command")
    episodes = [(tmp_path / name / "episodes.jsonl").read_bytes() for name in ("python", "command")]
    assert episodes[0] == episodes[1]
    assert {path.name for path in (tmp_path / "python").iterdir()} == {
        path.name for path in (tmp_path / "command").iterdir()
    }
    with pytest.raises(RunFolderError, match="already holds an evaluation"):
        evaluate(run, tmp_path / "python", limit=3)


def test_the_environment_of_somebody_elses_run_is_not_imported(tmp_path):
    run = tmp_path / "run"
    small(updates=1).run(run)
    record = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(record | {"env": f"no_such_module:{DUO}"}))
    with pytest.raises(UntrustedConfigError, match=r"env imports a module: .no_such_module:"):
        evaluate(run, tmp_path / "out")
    with pytest.raises(ImportError, match="no_such_module cannot be imported"):
        evaluate(run, tmp_path / "out", trust=True)
    keywords = {"data": "embedded:stories"}
    assert evaluate(run, tmp_path / "out", env=DUO, keywords=keywords, limit=1).scores.shape == (1, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.1}, "learning_rate: no setting .* did you mean policy_lr or critic_lr"),
        ({"sampling": {"temperature": 1}}, "sampling: found dict, wanted SamplingParams, or .* like temperature"),
        ({"data": "a.csv"}, "data: a keyword of the environment, wanted keywords="),
        ({"updates": "3"}, "updates = '3', wanted >= 1 or none"),
        ({"sampling": SamplingParams(), "top_k": 3}, "top_k is a setting of sampling, which is given whole"),
    ],
)
def test_a_wrong_setting_of_python_says_what_was_meant(settings, message):
    with pytest.raises(SettingsError, match=message):
        Experiment(DUO, **settings)


def test_what_are_no_tasks_is_refused_by_type():
    with pytest.raises(SettingsError, match="env: found list, wanted an id, or tasks"):
        Experiment(["a prompt"], team="solo")


def test_an_unknown_preset_is_refused_by_name():
    with pytest.raises(SettingsError, match="preset = 'big', wanted paper or "):
        Experiment(DUO, preset="big")


def test_a_plain_experiment_has_the_settings_of_its_algorithm():
    assert Experiment(DUO).learner == Experiment.from_dict(Experiment(DUO).to_dict()).learner
    assert Experiment(DUO, algorithm="grpo").learner.baseline == Experiment(DUO, algorithm="grpo").learner.baseline


def test_a_recorded_run_of_a_probe_game_names_its_current_module():
    record = Experiment("baselines.probes.digit_games:probe/copy_duo-v0", models="tiny").to_dict()
    old = {**record, "env": "baselines.bench.probe_games:probe/copy_duo-v0"}
    assert Experiment.from_dict(old) == Experiment.from_dict(record)


def test_turns_are_replayed_by_a_reader_that_is_passed_in(tmp_path):
    (tmp_path / "turns.jsonl").write_text("{}")
    experiment = small(updates=1, replay_from=tmp_path / "turns.jsonl", replay_share=0.5)
    with pytest.raises(SettingsError, match="no reader of turn files was given"):
        experiment.run(tmp_path / "run")


def test_the_package_is_imported_without_torch():
    code = "import baselines, sys; sys.exit(bool({'torch', 'numpy', 'marft_envs'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def vowels(prompt, answer):
    return sum(letter in "aeiou" for letter in answer) / max(1, len(answer))


SHORT = {"models": "tiny", "updates": 1, "groups": 1, "group_size": 2, "max_new_tokens": 2}


def test_prompts_a_reward_and_two_system_prompts_are_an_experiment(tmp_path):
    tasks = TaskSet.from_prompts(["Write vowels."], vowels, name="front-door")
    team = Team.from_prompts(["Plan a text.", "Write the text."])
    experiment = Experiment(tasks, team=team, **SHORT)
    assert experiment.env == "own/front-door_team-v0"
    register_task("front-door", {"train": tasks}, teams={"team": team}, namespace="mine")  # as a script does
    for known in (experiment, Experiment("mine/front-door_team-v0", **SHORT)):
        with pytest.raises(SettingsError, match="this program alone, and workers and learners of Ray are other"):
            dataclasses.replace(known, rollouts=RolloutSettings(ray="local")).check()
    assert experiment.run(tmp_path / "run")["updates"] == 1
    assert report.write(tmp_path / "run").is_file()
    again = Experiment.load(tmp_path / "run")
    longer = dataclasses.replace(again, schedule=dataclasses.replace(again.schedule, updates=2))
    assert longer.run(tmp_path / "run", resume=True)["updates"] == 2


def test_two_experiments_never_share_the_tasks_of_one():
    first, second = (TaskSet.from_prompts([text], vowels, name="twins") for text in ("One.", "Two."))
    made = [Experiment(tasks, team="solo", **SHORT) for tasks in (first, second, first)]
    assert [one.env for one in made] == ["own/twins_solo-v0", "own/twins2_solo-v0", "own/twins_solo-v0"]
    assert [one.build()[0]().unwrapped.tasks for one in made] == [first, second, first]
    other = dataclasses.replace(Team.preset("solo"), language="zh")
    assert Experiment(first, team=other, **SHORT).env == "own/twins3_solo-v0"


def test_prompts_by_split_are_trained_validated_and_evaluated(tmp_path):
    splits = {}
    for split in ("train", "test"):
        splits[split] = TaskSet.from_prompts([f"Vowels to {split}."], vowels, name="by-split", split=split)
    experiment = Experiment(splits, team="solo", validate_every=1, **SHORT)
    assert experiment.env == Experiment(dict(splits), team="solo", **SHORT).env == "own/by-split_solo-v0"
    assert Experiment(splits["train"], team="solo", **SHORT).env == "own/by-split2_solo-v0"
    experiment.run(tmp_path / "run")
    assert "validation/success" in read_metrics(tmp_path / "run")[-1]
    evaluate(tmp_path / "run", tmp_path / "test")
    [episode] = (tmp_path / "test" / "episodes.jsonl").read_text().splitlines()
    assert json.loads(episode)["game"]["task_id"] == "test-0"


def test_tasks_without_a_team_say_how_to_make_one():
    with pytest.raises(SettingsError, match=r"team = None, wanted one that plays them, like team='solo'"):
        Experiment(TaskSet.from_prompts(["One."], vowels), **SHORT)


def test_a_team_takes_the_place_of_that_of_the_environment_and_paths_are_text(tmp_path):
    data = tmp_path / "sums.jsonl"
    data.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    team = Team.from_prompts({"planner_0": "Plan.", "writer_0": "Write."})
    experiment = Experiment("marft/math_duo-v0", keywords={"data": data}, team=team, **SHORT)
    assert experiment.keywords == {"data": str(data), "team": team.to_dict()}
    assert experiment.build()[0]().possible_agents == ["planner_0", "writer_0"]
    assert Experiment.from_dict(json.loads(json.dumps(experiment.to_dict()))) == experiment


def test_ctrl_c_names_the_command_that_goes_on(tmp_path, monkeypatch, capsys):
    class Stop(train.TrainingDisplay):
        def __call__(self, event):
            super().__call__(event)
            if isinstance(event, Updated):
                raise KeyboardInterrupt

    monkeypatch.setattr(train, "TrainingDisplay", Stop)
    out = tmp_path / "a run"
    assert main(["train", *FLAGS, "--updates", "2", "--out", str(out)]) == 130
    assert f"stopped; go on with: marft train --resume '{out}'" in capsys.readouterr().err
