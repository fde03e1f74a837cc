"""Transfer arms: forms of a trained team, those that a team does not have, and who plays them."""

from __future__ import annotations

import json

import pytest

from baselines.bench.arms import FEWER, FULL, MORE, TEAM, TRANSFERS
from baselines.bench.plan_errors import PlanError
from baselines.bench.plan_file import read_plan
from baselines.bench.transfer import transferred
from baselines.bench.units import cells_of
from baselines.cli.main import main
from marft_envs.teams.team import Team, as_team
from tests.helpers.bench_plan import write_plan


def chain_of(*names, answers=("c_0",), dependency="chain"):
    profiles = [{"name": name, "system_prompt": "", "answers": name in answers} for name in names]
    return {"name": "some", "profiles": profiles, "dependency": dependency}


def test_a_chain_is_played_as_full_with_one_agent_fewer_and_with_one_more():
    team = chain_of("a_0", "b_0", "c_0")
    full, players = transferred(team, FULL)
    assert full == {**team, "dependency": "full"}
    assert players == {name: name for name in ("a_0", "b_0", "c_0")}
    fewer, players = transferred(team, FEWER)
    assert [profile["name"] for profile in fewer["profiles"]] == ["a_0", "c_0"]
    assert players == {"a_0": "a_0", "c_0": "c_0"}
    more, players = transferred(team, MORE)
    assert [profile["name"] for profile in more["profiles"]] == ["a_0", "b_0", "b_1", "c_0"]
    assert players == {"a_0": "a_0", "b_0": "b_0", "b_1": "b_0", "c_0": "c_0"}
    for form in (full, fewer, more):
        assert isinstance(as_team(form), Team)
    assert [profile["name"] for profile in team["profiles"]] == ["a_0", "b_0", "c_0"], "it is left as it was"


def test_the_double_gets_a_name_that_is_free():
    more, players = transferred(chain_of("b_1", "b_0", "c_0"), MORE)
    assert [profile["name"] for profile in more["profiles"]] == ["b_1", "b_0", "b_2", "c_0"]
    assert players["b_2"] == "b_0"


@pytest.mark.parametrize(
    ("team", "arm", "reason"),
    [
        (chain_of("a_0", "c_0"), FULL, "chain of 2 agents"),
        (chain_of("a_0", "b_0", "c_0", dependency="full"), FULL, "found full of 3 agents"),
        (chain_of("c_0"), FEWER, "all of its agents answer"),
        (chain_of("a_0", "c_0", dependency={"kind": "matrix", "rows": [[0, 1], [0, 0]]}), MORE, "wanted chain or full"),
        (chain_of("a_0", "c_0", dependency={"kind": "chain", "delayed": "all"}), FEWER, "wanted chain or full"),
    ],
)
def test_a_team_without_such_a_form_is_refused(team, arm, reason):
    with pytest.raises(ValueError, match=reason):
        transferred(team, arm)


def test_a_plan_is_refused_before_it_runs_and_others_keep_their_checksum(tmp_path):
    with pytest.raises(PlanError, match="transfer@full: team 'laptop_duo': found chain of 2 agents"):
        read_plan(write_plan(tmp_path, (TEAM, FULL)))
    plan = read_plan(write_plan(tmp_path, (TEAM, FEWER, MORE)))
    trainings = {cell.training for cell in cells_of(plan)}
    assert [cell.arm for cell in cells_of(plan)] == [TEAM, FEWER, MORE]
    assert len(trainings) == 1, "all play the team that was trained once"
    text = write_plan(tmp_path, (TEAM, MORE)).read_text()
    held = text.replace("marft/gsm8k_duo-v0", "marft/profile_holders2-v0").replace('teams = ["laptop_duo"]\n', "")
    (tmp_path / "held.toml").write_text(
        held.replace('data = "embedded:stories"\n', "").replace('solo = "laptop_solo"\n', "")
    )
    with pytest.raises(PlanError, match="transfer@more: team 'holders2': its dependency is"):
        read_plan(tmp_path / "held.toml")


@pytest.mark.long
def test_the_bench_plays_them_with_the_trained_adapters(tmp_path):
    out = tmp_path / "out"
    assert main(["bench", str(write_plan(tmp_path, (TEAM, FEWER, MORE))), "--out", str(out)]) == 0
    records = {}
    for file in (out / "cells").glob("*.json"):
        record = json.loads(file.read_text())
        records[record["arm"]] = record
    assert {arm: record["failure"] for arm, record in records.items()} == dict.fromkeys((TEAM, FEWER, MORE))
    assert {arm: record["rules"]["agents"] for arm, record in records.items()} == {TEAM: 2, FEWER: 1, MORE: 3}
    assert set(TRANSFERS) & records.keys() == {FEWER, MORE}
