"""The shipped experiments: each runs with a random model and shrunk sizes, and no key of it is without effect."""

import json
import tomllib

import pytest

import marft_envs
from baselines.cli.main import main
from baselines.experiment.config_files import EXPERIMENTS, bundled, read_file

SMALL = ["--model", "tiny", "--device", "cpu", "--max-new-tokens", "2", "--data", "embedded"]
SHORT = ["--updates", "1", "--groups", "1", "--group-size", "2", "--validate-on", "test:1"]
TRAINED = [name for name in bundled() if read_file(name)["command"] == "train"]
EVALUATED = [name for name in bundled() if read_file(name)["command"] == "eval"]


def local(name):
    """Return flags that need no Docker, and a split that the embedded set has."""
    env = read_file(name)["env"]
    return ["--judge", "unsafe"] if "codeforces" in env else ["--split", "train"] if name in TRAINED else []


@pytest.mark.parametrize("name", TRAINED)
def test_it_trains(capsys, tmp_path, name, monkeypatch):
    monkeypatch.setenv("MARFT_UNSAFE_JUDGE", "1")
    flags = ["train", "--config", name, *SMALL, *SHORT, *local(name), "--out", str(tmp_path / "run")]
    code = main(flags)
    error = capsys.readouterr().err
    assert code == 0, error
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    shipped = read_file(name)
    assert (config["env"], config["algorithm"]) == (shipped["env"], shipped["algorithm"])
    assert config["keywords"]["team"]["name"] == shipped["keywords"]["team"]
    assert config["validation"]["validate_every"] == shipped["validation"]["validate_every"] > 0


@pytest.mark.parametrize("name", EVALUATED)
def test_it_evaluates(capsys, tmp_path, name):
    code = main(["eval", "--config", name, *SMALL, "--limit", "1", "--out", str(tmp_path / "out")])
    assert code == 0, capsys.readouterr().err
    record = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert record["keywords"]["team"]["name"] == read_file(name)["keywords"]["team"]


def without(record, path):
    """Return a copy of a config without one key."""
    copy = json.loads(json.dumps(record))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copy


def keys_of(record, before=()):
    for key, value in record.items():
        if isinstance(value, dict):
            yield from keys_of(value, (*before, key))
        else:
            yield (*before, key)


@pytest.mark.parametrize("name", TRAINED)
def test_no_key_is_without_effect(capsys, tmp_path, name):
    """A key that says what is so anyway is noise, but for those that a reader looks for."""
    import tomli_w

    record = read_file(name)
    assert main(["train", "--config", name, "--print-config"]) == 0
    whole = capsys.readouterr().out
    for path in keys_of(record):
        if path[-1] in ("command", "env", "model", "preset", "algorithm", "split", "groups", "group_size"):
            continue
        if path[-1] == "max_new_tokens" and "duo" in name:
            continue
        (tmp_path / "c.toml").write_text(tomli_w.dumps(without(record, path)))
        assert main(["train", "--config", str(tmp_path / "c.toml"), "--print-config"]) == 0
        assert capsys.readouterr().out != whole, path


def test_all_arms_of_the_figures_are_there():
    arms = {"untuned_solo", "untuned_duo", "ppo_a_solo", "ppo_t_solo", "marft_a_duo", "marft_t_duo"}
    for folder in ("paper", "laptop"):
        assert {n.removeprefix(f"{folder}/figure3_") for n in bundled() if n.startswith(f"{folder}/figure3_")} == arms
    assert {n for n in bundled() if n.startswith("paper/") and "figure3" not in n} == {
        "paper/figure4_math_marft_a_duo",
        "paper/figure4_cmath_marft_a_duo",
        "paper/codeforces_marft_a_duo",
    }


@pytest.mark.parametrize("name", bundled())
def test_arms_of_a_figure_differ_in_the_arm_alone(name):
    text = EXPERIMENTS.joinpath(f"{name}.toml").read_text(encoding="utf-8")
    assert text.startswith("# ")  # says what it is
    team = tomllib.loads(text)["keywords"]["team"]
    assert team == f"{name.partition('/')[0]}_{name.rpartition('_')[2]}"
    env = tomllib.loads(text)["env"]
    assert env == marft_envs.spec(env.rpartition("-")[0]).id  # the newest version
    assert env.endswith(f"_{name.rpartition('_')[2]}-{env.rpartition('-')[2]}")


@pytest.mark.parametrize(
    ("language", "family", "answer"),
    [("en", "math", "\\boxed"), ("zh", "math", "\\boxed"), ("en", "code", "```python")],
)
def test_the_teams_of_the_paper_have_no_worked_examples(language, family, answer):
    for name, agents in {"paper_solo": ("actor_0",), "paper_duo": ("reasoner_0", "actor_0")}.items():
        team = marft_envs.Team.preset(name, language, family)
        assert (team.name, team.language, team.roster.agents) == (name, language, agents)
        assert not any(profile.examples for profile in team.profiles)
        assert answer in team.profiles[-1].system_prompt
        assert [profile.answers for profile in team.profiles] == [False, True][-len(agents) :]


@pytest.mark.parametrize(("family", "answer"), [("math", "\\boxed"), ("code", "```python")])
def test_the_teams_of_the_authors_code_act_in_sequence_and_the_last_one_answers(family, answer):
    roles = {"solo": "solver", "duo": "planner solver", "trio": "planner solver verifier"}
    for name, agents in {**roles, "quartet": "planner solver reflector verifier"}.items():
        team = marft_envs.Team.preset(f"authors_{name}", "en", family)
        assert team.roster.agents == tuple(f"{agent}_0" for agent in agents.split())
        assert team.roster.answering == {team.roster.agents[-1]}
        assert answer in team.profiles[-1].system_prompt
        sees = team.dependency.plan(team.roster).sees
        assert all(set(sees[agent]) == set(team.roster.agents[:i]) for i, agent in enumerate(team.roster.agents))


def test_a_preset_without_the_language_says_where_there_is_one():
    with pytest.raises(marft_envs.TeamError, match="there are laptop_duo for math in en"):
        marft_envs.make("marft/cmath_duo-v0", team="laptop_duo")
    assert marft_envs.make("marft/cmath_duo-v0", team="paper_duo").unwrapped.team.language == "zh"
