"""The ladders: six levels, thousands of numbers in each, examples that are no problems, an oracle that solves them."""

import random
from collections import Counter

import pytest

import envs_data
import marft_envs
from baselines.experiment.gold_answers import ScriptedView
from envs_data.build import spec
from marft_envs.teams.team import Team

FAMILIES = ("math", "cmath", "codeforces", "tools")
SPLITS = {"train": 300, "test": 100, "bench": 200}
TEAMS = ("ladder_solo", "ladder_duo")


def game(family, team, **keywords):
    horizon = {"horizon": 1} if family == "tools" else {}
    env_id = f"marft/{family}_{team.removeprefix('ladder_')}"
    return marft_envs.make(env_id, data="embedded:ladder", team=team, **horizon, **keywords)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", SPLITS)
def test_a_split_has_as_many_problems_of_each_level(family, split):
    levels = Counter(row["level"] for row in envs_data.rows(f"ladder/{family}", split))
    assert levels == dict.fromkeys(range(1, 7), SPLITS[split])
    assert len(envs_data.manifest()[f"ladder/{family}"]["levels"]) == 6


@pytest.mark.parametrize("family", FAMILIES)
def test_a_level_has_thousands_of_numbers(family):
    for group in spec(f"ladder/{family}").groups:
        (level,) = group.templates
        rng = random.Random(0)
        assert len({level(rng).parameters for _ in range(4000)}) > 1500, level.meaning


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("team", TEAMS)
def test_the_worked_examples_of_a_team_are_no_problems(family, team):
    asked = set()
    for profile in game(family, team).unwrapped.team.to_dict()["profiles"]:
        for example in profile["examples"]:
            told = example["user"]
            asked.add(told if isinstance(told, str) else dict(told)["environment"])
    assert len(asked) == 2
    for split in SPLITS:
        column = envs_data.manifest()[f"ladder/{family}"]["text"]
        texts = {row[column] for row in envs_data.rows(f"ladder/{family}", split)}
        assert not any(text.partition("\n")[0] in texts for text in asked)


@pytest.mark.filterwarnings("ignore:backend=.unsafe. isolates nothing")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("team", TEAMS)
def test_the_oracle_solves_a_problem_of_each_level(family, team):
    keywords = {"judge": "unsafe"} if family == "codeforces" else {}  # solutions of ours
    for level in range(1, 7):
        env = ScriptedView(game(family, team, level=level, split="test", **keywords))
        env.reset(seed=0, options={"index": 0})
        for agent in env.agent_iter():
            over = env.terminations[agent] or env.truncations[agent]
            env.step(None if over else env.observe(agent))
        assert env.unwrapped.episode().success, level


def test_programs_of_the_ladder_are_asked_for_in_few_words():
    problem = game("codeforces", "ladder_solo").unwrapped.tasks[0]
    assert problem.prompt.startswith("Read ")
    assert "Limits:" not in problem.prompt
    assert "Limits:" in game("codeforces", "ladder_solo", instructions=True).unwrapped.tasks[0].prompt


@pytest.mark.parametrize("name", TEAMS)
def test_a_family_without_a_ladder_has_no_team_of_it(name):
    with pytest.raises(ValueError, match=name):
        Team.preset(name, family="recall")


def test_a_task_without_a_ladder_says_which_sets_there_are():
    with pytest.raises(envs_data.DataError, match=r"found set 'ladder', wanted one of aime"):
        marft_envs.make("marft/aime_solo", data="embedded:ladder")
