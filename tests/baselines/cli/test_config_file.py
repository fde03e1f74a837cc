"""`--config` and `--print-config`: what a file sets, what goes before it, and one clear line for each bad file."""

import argparse
import json
import tomllib

import pytest
import torch  # noqa: F401 - else the first command says that it loads it

from baselines.cli import evaluate
from baselines.cli.config_file import add_config, with_config
from baselines.cli.main import build_parser, main
from baselines.cli.train import experiment_of
from baselines.experiment.config_files import ConfigError, bundled, config_of, read_file, to_toml
from baselines.experiment.experiment import SETTINGS, Experiment
from baselines.experiment.presets import PRESETS
from marft_agents.learning.algorithms import ALGORITHMS
from marft_agents.runs.run_folder import write_json
from marft_agents.setting_fields import SettingsError
from marft_envs import UnknownEnvironmentError

DUO, SOLO = "marft/gsm8k_duo-v0", "marft/gsm8k_solo-v0"
[COMMANDS] = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]


def arguments_of(command, *flags):
    parser = COMMANDS.choices[command]
    return with_config(parser.parse_args([str(flag) for flag in flags]), parser)


def experiment(*flags):
    return experiment_of(arguments_of("train", *flags))


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


# -------------------------------------------------------------- what it sets


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_printed_config_makes_the_same_experiment(tmp_path, name, preset):
    first = experiment("--env", DUO, "--algorithm", name, "--preset", preset)
    file = write(tmp_path / "c.toml", to_toml(first))
    assert experiment("--config", file) == first
    assert to_toml(experiment("--config", file)) == file.read_text(encoding="utf-8")


def test_an_id_without_a_version_is_recorded_with_the_one_that_was_played():
    assert experiment("--env", "marft/codeforces_duo").env == "marft/codeforces_duo-v1"
    assert experiment("--env", "marft_envs:marft/math_duo").env == "marft_envs:marft/math_duo-v0"
    with pytest.raises(UnknownEnvironmentError, match="marft/nothing"):
        experiment("--env", "marft/nothing")


def test_a_printed_config_holds_every_setting(tmp_path):
    record = tomllib.loads(to_toml(experiment("--env", DUO)))
    for table, (kind, _) in SETTINGS.items():
        assert set(record[table]) == set(kind.__dataclass_fields__)
    assert record["learner"]["kl_stop"] == "none"
    assert (record["command"], record["env"], record["models"]) == ("train", DUO, {"*": "smollm2-135m"})


@pytest.mark.parametrize(
    "flags",
    [
        ["--team", "laptop_duo", "--dependency", "independent", "--communication", '{"default": "last"}'],
        ["--model", "reasoner_0=tiny", "--model", "actor_0=smollm2-135m", "--dtype", "bfloat16"],
        ["--env-arg", 'render_mode="human"', "--env-arg", 'x={"a": [null, 1]}', "--reward", '{"success": 1.0}'],
        ["--epochs", "2", "--kl-stop", "0.1", "--targets", "q_proj", "--validate-every", "3"],
        ["--kl-stop", "none", "--sampler", "http://127.0.0.1:9/v1", "--horizon", "3"],
        ["--budget-tokens", "5000"],
        ["--budget-tokens", "5000", "--updates", "30"],
        ["--budget-tokens", "5000", "--epochs", "2", "--preset", "authors"],
    ],
)
def test_odd_values_make_the_round_trip_too(tmp_path, flags):
    first = experiment("--env", DUO, *flags)
    assert experiment("--config", write(tmp_path / "c.toml", to_toml(first))) == first


@pytest.mark.parametrize("name", ["marft-t", "grpo", "rloo"])
def test_the_record_of_a_run_is_a_config(tmp_path, name):
    first = experiment("--env", DUO, "--algorithm", name, "--epochs", "3", "--model", "tiny", "--team", "paper_duo")
    write_json(tmp_path / "config.json", first.to_dict())
    assert experiment("--config", tmp_path / "config.json") == experiment("--config", tmp_path) == first


def test_a_budget_is_not_limited_by_the_default_of_updates_in_a_file(tmp_path):
    write_json(tmp_path / "config.json", experiment("--env", DUO).to_dict())
    found = experiment("--config", tmp_path, "--budget-tokens", "5000").schedule
    assert (found.updates, found.max_updates, experiment("--env", DUO).schedule.max_updates) == (None, 5000, 100)
    write_json(tmp_path / "config.json", experiment("--env", DUO, "--updates", "7").to_dict())
    assert experiment("--config", tmp_path, "--budget-tokens", "5000").schedule.max_updates == 7
    lifted = experiment("--config", tmp_path, "--budget-tokens", "5000", "--updates", "none")
    assert lifted.schedule.max_updates == 5000


def test_a_record_of_before_takes_the_defaults_of_then(tmp_path):
    old = experiment("--env", DUO, "--preset", "laptop").to_dict()
    del old["validation"], old["health"], old["schedule"]["epochs"], old["law"]["temperature"]
    write_json(tmp_path / "config.json", old)
    assert experiment("--config", tmp_path).sampling.temperature == 1.0  # not the laptop's


FLAT = f"""
env = "{DUO}"
algorithm = "marft-t"
model = "tiny"
policy-lr = 0.5
max_new_tokens = 7
kl-stop = "none"
data = "embedded:stories"
"""
TABLES = f"""
command = "train"
env = "{DUO}"
algorithm = "marft-t"
[models]
"*" = "tiny"
[learner]
policy_lr = 0.5
kl_stop = "none"
[law]
max-new-tokens = 7
[keywords]
data = "embedded:stories"
"""


def test_flat_and_in_tables_are_the_same(tmp_path):
    flat, tables = write(tmp_path / "a.toml", FLAT), write(tmp_path / "b.toml", TABLES)
    flags = ["--env", DUO, "--algorithm", "marft-t", "--model", "tiny", "--policy-lr", "0.5", "--max-new-tokens", "7"]
    wanted = experiment(*flags, "--kl-stop", "none", "--data", "embedded:stories")
    assert experiment("--config", flat) == experiment("--config", tables) == wanted


def test_flags_go_before_the_file_and_the_file_before_presets(tmp_path):
    file = write(tmp_path / "c.toml", TABLES)
    found = experiment("--config", file, "--policy-lr", "0.25", "--preset", "laptop", "--algorithm", "marft-a")
    assert (found.learner.policy_lr, found.sampling.max_new_tokens, found.algorithm) == (0.25, 7, "marft-a")
    assert found.sampling.temperature == PRESETS["laptop"]["temperature"]


def test_a_flag_replaces_the_model_it_names(tmp_path):
    file = write(tmp_path / "c.toml", f'env = "{DUO}"\n[models]\nreasoner_0 = "a"\nactor_0 = "b"\n')
    assert experiment("--config", file, "--model", "actor_0=c").models == {"reasoner_0": "a", "actor_0": "c"}
    assert experiment("--config", file, "--model", "c").models == {"*": "c"}
    assert experiment("--config", write(tmp_path / "d.toml", f'env = "{DUO}"\nmodel = ["x=a", "b"]')).models == {
        "x": "a",
        "*": "b",
    }


def test_keywords_of_other_environments_pass_through(tmp_path):
    file = write(
        tmp_path / "c.toml", f'env = "{DUO}"\nenv_arg = ["a=1"]\n[keywords]\nhorizon = 2\nb = {{ c = true }}\n'
    )
    found = experiment("--config", file, "--env-arg", "a=2").keywords
    assert {key: found[key] for key in ("a", "b", "horizon")} == {"a": 2, "b": {"c": True}, "horizon": 2}


def test_a_flag_for_the_length_replaces_the_other_one_of_the_file(tmp_path):
    file = write(tmp_path / "c.toml", f'env = "{DUO}"\nupdates = 7\n')
    assert experiment("--config", file).schedule.updates == 7
    assert experiment("--config", file, "--epochs", "2").schedule.epochs == 2
    file = write(tmp_path / "d.toml", f'env = "{DUO}"\nupdates = 7\nepochs = 2\n')
    with pytest.raises(SettingsError, match="updates follow from epochs"):
        experiment("--config", file)


def test_eval_takes_its_flags_from_a_file(tmp_path):
    text = (
        f'command = "eval"\nenv = "{DUO}"\nout = "x"\nseeds = [1, 2]\nlimit = 3\nother-tools = true\n[law]\ntop_p = 1\n'
    )
    found = arguments_of("eval", "--config", write(tmp_path / "c.toml", text), "--limit", "4")
    assert (found.env, str(found.out), found.seeds, found.limit, found.other_tools) == (DUO, "x", (1, 2), 4, True)
    assert found.top_p == 1.0


def test_the_record_of_an_evaluation_plays_it_again(capsys, tmp_path):
    flags = [
        "--env",
        DUO.removesuffix("-v0"),
        "--data",
        "embedded:stories",
        "--model",
        "tiny",
        "--limit",
        "2",
        "--max-new-tokens",
        "3",
    ]
    assert main(["eval", *flags, "--seeds", "0,5", "--max-turns", "1", "--out", str(tmp_path / "one")]) == 0
    record = tmp_path / "one" / "evaluation.json"
    assert main(["eval", "--config", str(record), "--out", str(tmp_path / "two")]) == 0
    one, two = (json.loads((tmp_path / name / "evaluation.json").read_text()) for name in ("one", "two"))
    for found in (one, two):
        found["ledger"] = {name: value for name, value in found["ledger"].items() if not name.startswith("seconds_")}
    assert one == two
    assert one["ledger"]["failed"] == one["ledger"]["team"]["turns"] == 4
    assert one["env"] == DUO
    assert one["failures"] == 4  # two scenarios and seeds: a duo needs two turns
    capsys.readouterr()
    assert main(["train", "--config", str(record)]) == 1
    assert "is a config of marft eval, not of marft train" in capsys.readouterr().err


def test_another_command_takes_it_with_one_call(tmp_path):
    parser, seen = argparse.ArgumentParser(prog="marft bench"), []
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--names", action="store_true", default=None)
    add_config(parser, lambda arguments: seen.append(arguments.rounds) or 0)
    parsed = parser.parse_args(["--config", str(write(tmp_path / "c.toml", "rounds = 3\nnames = true"))])
    assert parsed.run(parsed) == 0
    assert seen == [3]


# ------------------------------------------------------------- print-config


def test_print_config_loads_nothing_and_leaves_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--env", DUO, "--data", "hub:nobody/nothing", "--model", "no-such-model", "--epochs", "2"]
    assert main(["train", *flags, "--print-config"]) == 0
    record = tomllib.loads(capsys.readouterr().out)
    assert "updates" not in record["schedule"]
    assert record["keywords"] == {"split": "train", "data": "hub:nobody/nothing"}
    assert list(tmp_path.iterdir()) == []


def test_print_config_keeps_out_and_device(capsys):
    assert main(["train", "--env", DUO, "--out", "runs/x", "--device", "cpu", "--print-config"]) == 0
    record = tomllib.loads(capsys.readouterr().out)
    assert (record["out"], record["device"]) == ("runs/x", "cpu")


@pytest.mark.parametrize("value", ["true", "1", "1.0"])
def test_a_share_may_be_true_as_in_older_files(tmp_path, value):
    written = write(tmp_path / "file.toml", f"gradient_checkpointing = {value}")
    assert experiment("--env", DUO, "--config", written).learner.gradient_checkpointing == 1
    assert experiment("--env", DUO, "--gradient-checkpointing").learner.gradient_checkpointing == 1


# ------------------------------------------------------------------ bad input

BAD = {
    "unknown key": ("polcy_lr = 1", ["unknown key 'polcy_lr'", "did you mean policy_lr?"]),
    "unknown key of a table": (
        "[learner]\nclip_hgh = 1",
        ["unknown key 'clip_hgh' in [learner]", "did you mean clip_high or"],
    ),
    "unknown table": ("[lerner]\npolicy_lr = 1", ["unknown key 'lerner'", "did you mean learner or"]),
    "wrong table": ("[learner]\ngroups = 1", ["[learner] has no 'groups'", "[schedule]"]),
    "no key of a table": ("[schedule]\nout = 'x'", ["[schedule] has no 'out'", "at the top"]),
    "another command": ('command = "eval"', ["a config of marft eval, not of marft train"]),
    "a key of another command": ("limit = 3", ["'limit' is a setting of marft eval, not of marft train"]),
    "text for a number": ('policy_lr = "1"', ["policy_lr: found '1' (str), wanted a finite number"]),
    "not finite": ("policy_lr = nan", ["policy_lr: found nan (float), wanted a finite number"]),
    "true for a number": ("groups = true", ["groups: found True (bool), wanted a whole number"]),
    "a float for a whole number": ("[schedule]\ngroups = 1.5", ["[schedule] groups: found 1.5", "a whole number"]),
    "share above 1": ("gradient_checkpointing = 2", ["gradient_checkpointing = 2.0, wanted in [0, 1]"]),
    "number for yes or no": ("value_norm = 1", ["value_norm: found 1 (int), wanted true or false"]),
    "no choice": ('sharing = "both"', ["sharing: found 'both'", "separate or shared"]),
    "list for a choice": ("preset = []", ["preset: found [] (list)", "paper"]),
    "number for a text": ("data = 3", ["data: found 3 (int), wanted a text"]),
    "list for a folder": ("out = ['a', 'b']", ["out: found ['a', 'b'] (list), wanted a text"]),
    "number for models": ("models = 3", ["models: found 3 (int), wanted a list of texts"]),
    "number for a model": ("[models]\nx = 3", ["[models]: found [3] (list), wanted a list of texts"]),
    "list for a table": ("keywords = []", ["keywords: found [] (list), wanted a table [keywords]"]),
    "given twice": ("policy_lr = 1.0\n[learner]\npolicy-lr = 1.0", ["[learner] policy-lr is given twice"]),
    "a date for a keyword": (
        "[keywords]\nday = 2024-01-01",
        ["[keywords] day: found datetime.date(2024, 1, 1) (date)"],
    ),
    "a date in env_arg": ("env_arg = {day = 2024-01-01}", ["[env_arg] day: found datetime.date", "write it as a text"]),
    "a date in a table": ("[dependency]\nday = 2024-01-01", ["dependency: found {'day': datetime.date", "as a text"]),
    "a text for a table": ('schedule = "x"', ["unknown key 'schedule'"]),
    "out of range": ("alarm_window = -1", ["alarm_window = -1", "wanted >="]),
    "against the algorithm": ('algorithm = "marft-t"\nlevel = "action"', ["level = 'action' contradicts marft-t"]),
    "against the algorithm's critic": ('algorithm = "grpo"\ncritic_lr = 1e-5', ["critic_lr", "means nothing to grpo"]),
    "updates and epochs": ("updates = 1\nepochs = 1", ["updates follow from epochs"]),
    "not TOML": ("a = = 1", ["is not TOML"]),
}


def error_of(capsys, *flags):
    assert main([str(flag) for flag in flags]) == 1
    error = capsys.readouterr().err
    assert error.startswith("marft: error: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_clear_line_before_anything_loads(capsys, tmp_path, case):
    text, wanted = BAD[case]
    file, out = write(tmp_path / "bad.toml", text), tmp_path / "out"
    error = error_of(capsys, "train", "--config", file, "--env", DUO, "--model", "no-such-model", "--out", out)
    assert all(words in error for words in wanted), error
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def test_files_that_are_none(capsys, tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'env = "\xe9"')
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "odd.json").write_text('{"env": 3, "learner": {"x": 1}, "schedule": {}}')
    for name, words in {
        "nowhere.toml": "there is no such file",
        "latin.toml": "is not UTF-8",
        "bad.json": "is not JSON",
        "list.json": "found list, wanted an object",
        "odd.json": "is no record of a run",
        "": "is a folder without config.json",
        "latin.toml/x": "cannot be read",
    }.items():
        assert words in error_of(capsys, "train", "--config", f"{tmp_path}/{name}", "--env", DUO, "--out", "x")


def test_a_run_is_no_config_of_an_evaluation(capsys, tmp_path):
    write_json(tmp_path / "config.json", experiment("--env", DUO).to_dict())
    error = error_of(capsys, "eval", "--config", tmp_path / "config.json", "--out", tmp_path / "x")
    assert "is a config of marft train, not of marft eval" in error
    assert "marft eval --env ID --checkpoint RUN --out DIR" in error
    error = error_of(capsys, "eval", "--config", write(tmp_path / "c.toml", "[learner]\nlevel = 'token'"), "--out", "x")
    assert "'level' is a setting of marft train" in error


def test_the_turns_of_an_evaluation_may_stand_in_a_file(capsys, tmp_path):
    file = write(tmp_path / "c.toml", "max_turns = -1")
    assert "max_turns = -1, wanted >= 0" in error_of(capsys, "eval", "--env", DUO, "--config", file, "--out", "x")


def test_an_evaluation_plays_so_many_games_at_once(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(evaluate, "evaluate", lambda *_, num_envs, **__: seen.append(num_envs) or 1 / 0)
    for flags in ([], ["--num-envs", "3"]):
        assert main(["eval", "--env", DUO, "--policy", "random", "--limit", "1", "--out", str(tmp_path), *flags]) == 1
    assert seen == [128, 3]


def test_eval_needs_an_environment_and_a_folder(capsys):
    assert f"found --env {DUO}, give --out" in error_of(capsys, "eval", "--env", DUO)


def test_a_mistyped_experiment_names_the_close_ones():
    with pytest.raises(ConfigError, match="laptop/figure3_marft_a_duo"):
        read_file("laptop/figure3_marft_duo")
    assert read_file("laptop/figure3_marft_a_duo.toml") == read_file("laptop/figure3_marft_a_duo")


def test_the_record_leaves_out_what_means_nothing():
    assert "critic_lr" not in config_of(experiment("--env", DUO, "--algorithm", "grpo"))["learner"]
    assert "critic_lr" in config_of(experiment("--env", DUO))["learner"]
    assert len(bundled()) == len(set(bundled())) > 10
    assert isinstance(Experiment.from_dict(experiment("--env", DUO).to_dict()), Experiment)
