"""The `marft` command as a user meets it: what it prints, its exit codes, and one clear line for each bad input."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import marft_envs
from baselines.cli.main import build_parser, main
from baselines.experiment.experiment import Experiment
from baselines.experiment.trained_team import TeamSettings
from tests.helpers.full_disk import largest_file

DUO = "marft/gsm8k_duo-v0"
TINY_TRAINING = [
    *["train", "--env", DUO, "--data", "embedded:stories", "--model", "tiny", "--device", "cpu"],
    *["--groups", "2", "--group-size", "2", "--max-new-tokens", "4", "--updates", "2"],
]


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main([*TINY_TRAINING, "--out", str(out)]) == 0
    return out


# ------------------------------------------------------------------ looking


def listed(capsys, *arguments):
    code, out, _ = run(capsys, "envs", *arguments)
    assert code == 0
    return [line.split("\t")[0] for line in out.splitlines()]  # no terminal: a line for each, nothing cut off


def test_envs_lists_the_ids_of_the_suite_and_with_all_every_registered_one(capsys):
    assert listed(capsys, "--all") == marft_envs.envs()
    ours = [name for name in listed(capsys) if name.startswith("marft/")]
    assert len(ours) == 101
    assert set(marft_envs.envs()) >= {*ours, "marft/plancraft_duo-v0"}
    assert "marft/plancraft_duo-v0" not in ours
    for flags in ((), ("--all",), ("retail",)):
        wanted = listed(capsys, *flags)
        code, out, _ = run(capsys, "envs", "--json", *flags)
        assert code == 0
        assert [entry["id"] for entry in json.loads(out)] == wanted
        assert set(json.loads(out)[0]) == {"id", "task", "team", "description", "plugin", "deprecated"}


def test_envs_lists_ids_by_words(capsys):
    assert listed(capsys, "math", "TRIO") == ["marft/math_trio-v0"]  # not cmath
    assert listed(capsys, "codeforces_duo") == ["marft/codeforces_duo-v0", "marft/codeforces_duo-v1"]
    assert listed(capsys, "--all", "retail") == ["marft/tau2_retail_duo-v0", "marft/tau2_retail_solo-v0"]
    assert len(listed(capsys, "--all", "reasoning-gym")) == 300  # the plugin's name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["maht", "trio"], r"no environment matches 'maht trio'; did you mean marft/math_trio-v0, "),
        (["--all", "tau3_retail_duo"], r"did you mean marft/tau2_retail_duo-v0, "),
        (["banking"], r"'banking'; 3 of other packages do: `marft envs --all banking`"),
        (["*(", "--json"], r"no environment matches '\*\('; there are \d+: `marft envs --all`"),
    ],
)
def test_envs_says_that_nothing_matches_and_names_others(capsys, words, said):
    code, out, error = run(capsys, "envs", *words)
    assert (code, out) == (1, "")
    assert re.search(said, error)


def test_an_environment_of_a_module_in_the_working_directory_is_found(tmp_path):
    """By the console script too, which does not search that folder by itself; nor does Python with -P."""
    (tmp_path / "own_game.py").write_text(
        "import marft_envs\n"
        "marft_envs.register('own/game-v0', lambda **kwargs: marft_envs.make('marft/math_duo-v0', **kwargs))\n"
    )
    start = "from baselines.cli.main import main; raise SystemExit(main(['show', 'own_game:own/game-v0']))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", start],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "what reasoner_0 sees" in done.stdout


def test_show_prints_prompts_dependency_and_settings(capsys, tmp_path):
    code, out, _ = run(capsys, "show", "marft/math_trio-v0", "--png", tmp_path / "d.png")
    assert code == 0
    assert "reasoner_0 --> " in out
    assert all(f"what {agent} sees" in out for agent in marft_envs.Team.preset("trio").roster.agents)
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", [["show"], ["play"], ["check", "--quick"]], ids=lambda command: command[0])
def test_a_team_from_a_file_can_be_shown_played_and_checked(capsys, tmp_path, command):
    team = marft_envs.Team.preset("trio").to_dict() | {"dependency": {"kind": "independent"}}
    (tmp_path / "team.json").write_text(json.dumps(team), encoding="utf-8")
    code, out, error = run(capsys, *command, DUO, "--team", tmp_path / "team.json")
    assert code == 0, error
    assert "verifier_0" in out or command[0] == "check"


def test_check_passes_on_our_own_and_says_so(capsys, short_benchmark):
    code, out, _ = run(capsys, "check", "marft/math_solo-v0")
    assert code == 0
    assert "FAIL" not in out
    assert "api_test" in out


@pytest.mark.parametrize("policy", ["scripted", "random", "tiny"])
def test_play_plays_an_episode_to_its_end(capsys, policy):
    code, out, _ = run(capsys, "play", DUO, "--policy", policy, "--index", "3")
    assert code == 0
    assert ("team reward 1;" in out) == (policy == "scripted")


def test_a_misspelt_policy_is_told_the_policies_and_not_only_the_models(capsys):
    code, _, err = run(capsys, "play", DUO, "--policy", "scripter")
    assert code == 1
    assert "--policy scripter: neither human, random nor scripted; model 'scripter' is neither a folder" in err


def test_a_human_plays_by_typing(capsys, monkeypatch):
    gold = marft_envs.make(DUO, data="embedded:stories").unwrapped.tasks[0].answer
    typed = iter(["three and four", f"\\boxed{{{gold}}}"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    code, out, _ = run(capsys, "play", DUO, "--data", "embedded:stories", "--policy", "human", "--index", "0")
    assert code == 0
    assert "team reward 1;" in out


def test_data_lists_and_checks(capsys):
    assert set(json.loads(run(capsys, "data", "list", "--json")[1])) >= {"math", "gsm8k", "aime", "cmath", "stories"}
    assert run(capsys, "data", "list")[0] == 0
    code, out, _ = run(capsys, "data", "check")
    assert code == 0
    assert "match" in out


def test_an_installed_package_cannot_rebuild_the_data(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "envs_data.build", None)  # the wheel has no generators
    code, out, error = run(capsys, "data", "build")
    assert (code, out) == (1, "")
    assert "found an installed package, which has no generators, wanted a checkout of the repository" in error
    assert "make data" in error


def test_an_installed_package_has_no_attack_suite(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "marft_envs.sandbox.attacks", None)
    code, out, error = run(capsys, "sandbox", "check", "--full", "--backend", "landlock")
    assert (code, out) == (1, "")
    assert "found an installed package, which has no attack suite, wanted a checkout of the repository" in error


def test_every_command_has_complete_help():
    [subparsers] = [a for a in build_parser()._actions if hasattr(a, "choices") and isinstance(a.choices, dict)]
    assert set(subparsers.choices) == {
        *("envs", "show", "check", "data", "play", "train", "eval", "attribute", "grade-agreement", "sandbox", "new"),
        *("bench", "compare", "export", "serve", "report", "view", "push", "vllm", "sft"),
    }
    for parser in subparsers.choices.values():
        assert parser.format_help()
        assert all(action.help or action.dest in {"id", "action", "data", "file"} for action in parser._actions)


# ------------------------------------------------------------------ training


def test_train_fills_the_run_folder(trained):
    assert {p.name for p in trained.iterdir()} >= {
        *("config.json", "versions.json", "metrics.jsonl", "episodes.jsonl", "checkpoints", "curve.png")
    }
    assert any(p.name.startswith("events.out.tfevents") for p in trained.iterdir())
    metrics = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [m["update"] for m in metrics] == [0, 1]
    episodes = [json.loads(line) for line in (trained / "episodes.jsonl").read_text().splitlines()]
    assert len(episodes) == 2 * 4
    assert {turn["agent"] for turn in episodes[0]["turns"]} == {"reasoner_0", "actor_0"}
    assert json.loads((trained / "versions.json").read_text())["torch"]


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.long), "bfloat16"])
def test_resume_goes_on_as_if_it_had_never_stopped(capsys, tmp_path, dtype):
    short, whole = tmp_path / "short", tmp_path / "whole"
    flags = ["--dtype", dtype]
    assert run(capsys, *TINY_TRAINING, *flags, "--out", short)[0] == 0
    assert run(capsys, "train", "--resume", short, "--updates", "4")[0] == 0
    assert run(capsys, *TINY_TRAINING[:-1], "4", *flags, "--out", whole)[0] == 0
    resumed = TeamSettings.of_run(Experiment.load(short), short).load(["reasoner_0", "actor_0"])
    assert resumed.bases[0].dtype == getattr(torch, dtype)
    for agent in ("reasoner_0", "actor_0"):
        name = f"checkpoints/update-00004/{agent}/adapter_model.safetensors"
        assert (short / name).read_bytes() == (whole / name).read_bytes()
    assert (short / "episodes.jsonl").read_bytes() == (whole / "episodes.jsonl").read_bytes()


def test_results_of_others_are_not_overwritten(capsys, trained, tmp_path):
    evaluation = ["eval", "--env", DUO, "--data", "embedded:stories", "--policy", "scripted", "--limit", 1]
    episodes = (trained / "episodes.jsonl").read_bytes()
    code, _, error = run(capsys, *evaluation, "--out", trained)
    assert code == 1
    assert "already holds a run" in error
    assert (trained / "episodes.jsonl").read_bytes() == episodes
    assert run(capsys, *evaluation, "--out", tmp_path / "played")[0] == 0
    for arguments in (evaluation, TINY_TRAINING):
        code, out, error = run(capsys, *arguments, "--out", tmp_path / "played")
        assert code == 1
        assert "already holds an evaluation" in error
        assert "episodes" not in out
    (tmp_path / "file").touch()
    assert "it is a file" in run(capsys, *evaluation, "--out", tmp_path / "file")[2]


@pytest.mark.parametrize("seeds", ["0,0", "-1", "a,b", "", "1,"])
def test_evaluation_seeds_are_different_numbers(capsys, seeds):
    with pytest.raises(SystemExit):
        main(["eval", "--env", DUO, f"--seeds={seeds}", "--out", "unused"])
    assert f"found {seeds!r}, wanted different whole numbers >= 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["play", DUO], ["check", DUO], ["data", "from-runs", "run", "--out", "unused"]],
    ids=lambda words: words[0],
)
def test_a_negative_seed_is_refused_by_its_flag(capsys, command):
    with pytest.raises(SystemExit):
        main([*command, "--seed", "-1"])
    assert "argument --seed: found '-1', wanted a whole number >= 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--max-new-tokens", "4"],
            ["plays at temperature 1, max_new_tokens 4; a training with --preset laptop at 0.8, 16"],
        ),
        (["--preset", "laptop"], []),
    ],
)
def test_eval_without_a_checkpoint_tells_where_trainings_sample_otherwise(capsys, tmp_path, flags, told):
    plays = ["eval", "--env", "marft/gsm8k_solo-v0", "--model", "tiny", "--limit", "1", "--context-window", "2048"]
    assert main([*plays, "--out", str(tmp_path / "out"), *flags]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("plays at")] == told


def test_a_checkpoint_is_sampled_as_in_its_training(capsys, tmp_path):
    given = ["--checkpoint", str(tmp_path), "--preset", "laptop", "--out", str(tmp_path / "out")]
    assert main(["eval", "--env", "marft/gsm8k_solo-v0", *given]) == 1
    assert "--preset is for a team without --checkpoint" in capsys.readouterr().err


def test_an_evaluation_has_a_scenario(capsys, tmp_path):
    arguments = ["eval", "--env", DUO, "--policy", "random", "--out", tmp_path / "played"]
    for limit in (0, -1):
        code, _, error = run(capsys, *arguments, "--limit", limit)
        assert code == 1
        assert f"--limit = {limit}, wanted >= 1" in error


def test_eval_of_a_checkpoint_uses_its_sampling_parameters_and_keeps_scores(capsys, trained, tmp_path):
    out = tmp_path / "evaluation"
    arguments = ["--data", "embedded:stories", "--checkpoint", trained, "--limit", "3", "--seeds", "0,1"]
    code, printed, _ = run(capsys, "eval", "--env", DUO, *arguments, "--out", out)
    assert code == 0
    assert "accuracy" in printed
    record = json.loads((out / "evaluation.json").read_text())
    assert record["law"]["max_new_tokens"] == 4
    assert record["models"] == ["tiny"]
    assert [len(row) for row in record["scores"]] == [2, 2, 2]
    assert len((out / "episodes.jsonl").read_text().splitlines()) == 6


@pytest.mark.parametrize("algorithm", ["ppo-t", "dapo", "c3"])  # one agent, groups, branches
def test_algorithms_of_each_kind_train(capsys, tmp_path, algorithm):
    env = "marft/gsm8k_solo-v0" if algorithm.startswith("ppo") else DUO
    arguments = [env if a == DUO else a for a in TINY_TRAINING]
    code, out, err = run(capsys, *arguments, "--algorithm", algorithm, "--out", tmp_path / "run")
    shown = [line.partition(":")[0] for line in err.splitlines() if "the limit of 4 tokens cut" not in line]
    assert (code, shown) == (0, ["update 1/2", "update 2/2"])
    assert "2 updates" in out


# ------------------------------------------------------------------ bad input


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def team(**changes):
    profile = {"name": "reasoner_0", "system_prompt": "Reason.", "answers": False}
    answering = {"name": "actor_0", "system_prompt": "Answer.", "answers": True}
    return {"name": "mine", "dependency": {"kind": "chain"}, "profiles": [profile, answering], **changes}


def a_cycle():
    return {"kind": "matrix", "rows": [[0, 1], [1, 0]]}


def without_prompt():
    profiles = team()["profiles"]
    del profiles[0]["system_prompt"]
    return team(profiles=profiles)


BAD_INPUT = {
    "profile without a key": (lambda d: ["--team", write(d / "t.json", without_prompt())], ["t.json", "system_prompt"]),
    "two agents of one name": (
        lambda d: ["--team", write(d / "t.json", team(profiles=[team()["profiles"][1]] * 2))],
        ["t.json", "actor_0"],
    ),
    "cyclic D": (lambda d: ["--dependency", json.dumps(a_cycle())], ["cycle", "reasoner_0", "actor_0"]),
    "missing data file": (lambda d: ["--data", d / "nowhere.jsonl"], ["nowhere.jsonl"]),
    "row without an answer": (
        lambda d: ["--data", write(d / "d.jsonl", '{"question": "2+2?", "answer": "4"}\n{"question": "3+3?"}\n')],
        ["d.jsonl", "2", "answer"],
    ),
    "unknown environment": (lambda d: ["--env", "marft/gsm8k_dou-v0"], ["marft/gsm8k_dou-v0", DUO]),
    "unknown environment keyword": (lambda d: ["--env-arg", "horizn=2"], ["horizn", "horizon"]),
    "model folder without weights": (
        lambda d: ["--model", write(d / "config.json", {"model_type": "llama"}).parent],
        ["weights", "safetensors"],
    ),
    "unknown model": (lambda d: ["--model", "no-such-model"], ["no-such-model", "smollm2-135m"]),
    "setting out of range": (lambda d: ["--policy-lr", "-1"], ["policy_lr", "-1", "> 0"]),
    "single-agent algorithm for a team": (lambda d: ["--algorithm", "ppo-a"], ["ppo-a", "marft-a"]),
    "group algorithm without a group": (
        lambda d: ["--algorithm", "grpo", "--group-size", "1"],
        ["grpo", "group_size >= 2", "found 1"],
    ),
    "algorithm without a critic": (lambda d: ["--algorithm", "rloo", "--critic-lr", "1"], ["critic_lr", "rloo"]),
    "flag against the algorithm": (lambda d: ["--algorithm", "marft-t", "--level", "action"], ["level", "'token'"]),
    "words at token level": (
        lambda d: ["--algorithm", "marft-t", "--normalisation", "word"],
        ["normalisation", "token level"],
    ),
    "compounding of one adapter": (
        lambda d: ["--algorithm", "happo", "--sharing", "shared"],
        ["compounding", "separate adapters"],
    ),
    "no such device": (lambda d: ["--device", "cuda:99"], ["cuda:99"]),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_clear_line_and_leaves_nothing_behind(capsys, tmp_path, case):
    make, wanted = BAD_INPUT[case]
    out = tmp_path / "out"
    code, _, err = run(capsys, *TINY_TRAINING, *_last_wins(make(tmp_path)), "--out", out)
    assert code == 1
    assert err.startswith("marft: error: ")
    assert "Traceback" not in err
    for word in wanted:
        assert word in err
    assert not out.exists()


def _last_wins(flags):
    """--model may be repeated, so a case replaces the model by naming it for both agents."""
    if flags[0] != "--model":
        return flags
    return ["--model", f"reasoner_0={flags[1]}", "--model", f"actor_0={flags[1]}"]


def test_an_unknown_option_is_refused_with_the_usage(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--no-such-option"])
    assert stopped.value.code == 2
    assert "usage: marft" in capsys.readouterr().err


def test_a_run_is_never_overwritten(capsys, trained):
    before = (trained / "metrics.jsonl").read_bytes()
    code, _, err = run(capsys, *TINY_TRAINING, "--out", trained)
    assert code == 1
    assert "--resume" in err
    assert (trained / "metrics.jsonl").read_bytes() == before


def test_resume_of_a_run_without_a_checkpoint_starts_it_anew(capsys, trained, tmp_path):
    shutil.copy(trained / "config.json", tmp_path)
    code, _, err = run(capsys, "train", "--resume", tmp_path)
    assert code == 0
    assert "starts anew" in err
    assert (tmp_path / "episodes.jsonl").read_bytes() == (trained / "episodes.jsonl").read_bytes()


def test_resume_refuses_other_settings(capsys, trained):
    code, _, err = run(capsys, "train", "--resume", trained, "--policy-lr", "0.5")
    assert code == 1
    assert "--policy-lr" in err


def test_a_checkpoint_of_another_team_is_refused(capsys, trained, tmp_path):
    arguments = ["--checkpoint", trained, "--limit", "1", "--out", tmp_path / "out"]
    code, _, err = run(capsys, "eval", "--env", "marft/gsm8k_trio-v0", *arguments)
    assert code == 1
    assert "another team" in err
    assert "verifier_0" in err
    assert not (tmp_path / "out").exists()


def test_a_full_disk_while_saving_is_a_clear_error_and_leaves_no_half_checkpoint(capsys, tmp_path):
    with largest_file(20_000):
        code, _, error = run(capsys, *TINY_TRAINING, "--rank", "64", "--out", tmp_path / "out")
    assert code == 1
    assert "marft: error: checkpoint" in error
    assert "could not be written" in error
    assert list((tmp_path / "out" / "checkpoints").iterdir()) == []
