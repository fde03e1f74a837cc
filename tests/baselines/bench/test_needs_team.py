"""`marft check ID --needs-team`: which tasks need a team, by an oracle and by a model."""

import pytest

from baselines.bench.needs_team import NeedsTeamError, _handed_over, needs_team, nested_calls
from baselines.cli.main import main


def means(found):
    return {probe.name: probe.success.mean for probe in found.probes}


def test_a_world_that_splits_its_tools_needs_a_team():
    found = needs_team("marft/tools_duo-v0", {"data": "embedded:lookup"}, limit=10)
    assert means(found) == {"intact": 1.0, "muted": 0.0, "shuffled": 0.0, "random partner": 0.0}
    assert found.verdict.startswith("needs a team: success falls when it is muted")


def test_a_problem_that_every_agent_reads_needs_no_team():
    found = needs_team("marft/gsm8k_trio-v0", {"data": "embedded:stories"}, limit=40)
    assert set(means(found).values()) == {1.0}
    assert found.verdict.startswith("does not need a team")


def test_a_model_that_solves_nothing_decides_nothing():
    keywords = {"data": "embedded:stories", "max_action_chars": 8}
    found = needs_team("marft/gsm8k_duo-v0", keywords, "tiny", limit=2)
    assert found.verdict.startswith("undecided: tiny solves 0% intact")
    assert "MDE" in str(found)


@pytest.mark.parametrize("env_id", ["marft/gsm8k_solo-v0", "marft/tools_solo-v0"])
def test_one_agent_is_refused(env_id):
    with pytest.raises(NeedsTeamError, match="has one agent"):
        needs_team(env_id, {}, limit=2)


@pytest.mark.parametrize(("env_id", "keywords"), [("tools_duo-v0", {"dependency": "chain"}), ("tools_routed-v0", {})])
def test_a_world_without_hand_offs_asks_for_a_model(env_id, keywords):
    with pytest.raises(NeedsTeamError, match=f"marft/{env_id}: its agents do not hand over, .* give --policy MODEL"):
        needs_team(f"marft/{env_id}", {"data": "embedded:lookup", **keywords}, limit=2)


def test_few_scenarios_decide_nothing_and_one_is_refused():
    found = needs_team("marft/gsm8k_trio-v0", {"data": "embedded:stories"}, limit=4)
    assert found.verdict == "undecided: a loss of more than 10% is possible; play more scenarios"
    with pytest.raises(NeedsTeamError, match="at least 2 to shuffle"):
        needs_team("marft/gsm8k_duo-v0", {}, limit=1)


def test_each_hand_off_tells_all_that_follows():
    script = [("a_0", "f(x=1)"), ("a_0", "hand_off(to='b_0')"), ("b_0", "g()"), ("b_0", "h()"), ("b_0", "hand_off()")]
    text = nested_calls([*script, ("a_0", "finish()")])
    first, handed = text.splitlines()
    assert first == "f(x=1)"
    told = _handed_over(handed).splitlines()
    assert told[:2] == ["g()", "h()"]
    assert _handed_over(told[2]) == "finish()"
    assert _handed_over("g()") is None


def test_the_command_prints_every_probe(capsys):
    flags = ["--data", "embedded:lookup", "--needs-team", "--limit", "10"]
    assert main(["check", "marft/tools_duo-v0", *flags]) == 0
    out = capsys.readouterr().out
    for word in ("intact", "muted", "shuffled", "random partner", "needs a team"):
        assert word in out
