"""Changes of each agent between two evaluations: numbers worked by hand."""

from __future__ import annotations

import json

import pytest

from baselines.cli.main import main
from baselines.results.agent_changes import TEAM, UNREADABLE, agent_changes
from baselines.results.comparison import ComparisonError, read_evaluation


def call(agent, name):
    return {"kind": "call", "agent": agent, "name": name}


def hand_off(agent, to):
    return {"kind": "hand_off", "agent": agent, "to": to}


def line(scenario, *turns, events=(), terms=None, failure=None):
    """Return an episode of turns (agent, tokens)."""
    return {
        "update": 0,
        "group": scenario,
        "seed": scenario,
        "return": 0.0,
        "terminated": True,
        "failure": failure,
        "infos": {},
        "game": {"turns": [], "outcomes": [None, {"events": list(events)}], "terms": terms or {}},
        "turns": [{"agent": agent, "round": 0, "text": "", "reward": 0.0, "tokens": n} for agent, n in turns],
    }


@pytest.fixture
def evaluation(tmp_path):
    def write(name, *lines, **facts):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "episodes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        record = {"env": "marft/gsm8k_duo-v0", "scores": [[0.0]] * 3, "scenario_checksum": "sha256:one"}
        (folder / "evaluation.json").write_text(json.dumps(record | facts))
        return folder

    return write


def changes_of(*folders):
    return agent_changes(*(read_evaluation(folder / "evaluation.json") for folder in folders))


def test_tokens_are_means_of_turns_within_an_episode_and_then_of_scenarios(evaluation):
    a = evaluation("a", line(0, ("x", 2), ("y", 8), ("x", 4)), line(1, ("x", 5), ("y", 8)), line(2, ("x", 7)))
    b = evaluation("b", line(0, ("x", 5), ("y", 8)), line(1, ("x", 5), ("y", 8)), line(2, ("x", 9), failure="boom"))
    agents, terms = changes_of(a, b)
    assert list(agents) == ["x", "y", TEAM]
    x = agents["x"].tokens
    assert (x.a, x.b) == (5.0, 5.0), "3, 5 and 7; 5 and 5, without the failed episode"
    assert x.difference.mean == pytest.approx(1.0), "paired: 2 and 0"
    assert x.difference.scenarios == 2
    assert agents["y"].tokens.difference.mean == 0.0
    assert agents[TEAM].tokens.a == pytest.approx((14 / 3 + 13 / 2 + 7) / 3)
    assert terms == {}


def test_selections_of_tools_are_shares_of_calls_and_as_far_apart_as_half_the_sum(evaluation):
    before = [call("x", "look"), call("x", "look"), call("x", "pay"), call("x", ""), call("y", "look")]
    after = [call("x", "pay"), call("x", "pay")]
    agents, _ = changes_of(
        evaluation("a", line(0, ("x", 1), ("y", 1), events=before)),
        evaluation("b", line(0, ("x", 1), ("y", 1), events=after)),
    )
    assert agents["x"].tools == {UNREADABLE: (0.25, 0.0), "look": (0.5, 0.0), "pay": (0.25, 1.0)}
    assert agents["x"].distance == 0.75
    assert agents["y"].tools == {"look": (1.0, None)}
    assert agents["y"].distance is None, "no calls after"
    assert agents[TEAM].tools["look"] == (0.6, 0.0)


def test_a_loop_is_a_run_of_more_than_two_passes_between_the_same_two_agents(evaluation):
    to_and_fro = [hand_off("x", "y"), hand_off("y", "x")]
    played = ("x", 1), ("y", 1), ("z", 1)
    a = evaluation("a", *(line(i, *played, events=to_and_fro) for i in range(3)))
    looping = line(0, *played, events=[*to_and_fro, hand_off("x", "y")])
    through_z = line(1, *played, events=[*to_and_fro, hand_off("x", "z"), hand_off("z", "x"), hand_off("x", "y")])
    b = evaluation("b", looping, through_z, line(2, *played))
    agents, _ = changes_of(a, b)
    assert [(agents[agent].loops.a, agents[agent].loops.b) for agent in ("x", "y", "z", TEAM)] == [
        (0.0, pytest.approx(1 / 3)),
        (0.0, pytest.approx(1 / 3)),
        (0.0, 0.0),
        (0.0, pytest.approx(1 / 3)),
    ]
    alone = evaluation("c", line(0, ("x", 1)))
    assert changes_of(alone, alone)[0]["x"].loops is None, "nobody hands off"


def test_terms_of_the_reward_are_paired_and_those_of_one_side_are_kept(evaluation):
    a = evaluation("a", *(line(i, ("x", 1), terms={"task": value}) for i, value in enumerate((0, 1, 1))))
    b = evaluation("b", *(line(i, ("x", 1), terms={"task": 1, "cost": -2}) for i in range(3)))
    _, terms = changes_of(a, b)
    assert (terms["task"].a, terms["task"].b) == (pytest.approx(2 / 3), 1.0)
    assert terms["task"].difference.mean == pytest.approx(1 / 3)
    assert terms["cost"].to_dict() == {"a": None, "b": -2.0, "mean": None, "low": None, "high": None, "p_value": None}


def test_policies_without_tokens_have_no_tokens(evaluation):
    scripted = evaluation("a", line(0, ("x", 0)))
    assert changes_of(scripted, scripted)[0]["x"].tokens is None


def test_records_that_cannot_be_read_are_named(evaluation):
    good, bad = evaluation("a", line(0, ("x", 1))), evaluation("b")
    for content, message in (("{}\n", r"episodes.jsonl:1: found no field"), ("x\n", "episodes.jsonl:1 is not JSON")):
        (bad / "episodes.jsonl").write_text(content)
        with pytest.raises(ComparisonError, match=message):
            changes_of(good, bad)
    (bad / "episodes.jsonl").unlink()
    with pytest.raises(ComparisonError, match="--by agent needs it"):
        changes_of(good, bad)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"endpoint": "http://localhost:1/v1"}, "was played by the endpoint http://localhost:1/v1"),
        ({"policy": "random"}, "was played without a model, by the policy random"),
        ({"models": ["one/one", "one/two"]}, "does not say which agent plays which"),
        ({"models": None}, "names no models"),
        ({"models": ["tiny"], "checkpoint": "gone/update-00001"}, "gone"),
    ],
)
def test_a_side_without_a_local_model_has_no_kl_and_the_reason_is_told(evaluation, tmp_path, capsys, facts, reason):
    a, b = evaluation("a", line(0, ("x", 1)), models=["tiny"]), evaluation("b", line(0, ("x", 3)), **facts)
    file = tmp_path / "out.json"
    assert main(["compare", str(a), str(b), "--by", "agent", "--trust-config", "--json", str(file)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "no KL: " in told
    found = json.loads(file.read_text())["by_agent"]
    assert reason in found["kl_refused"]
    assert found["kl"] == {}
    assert found["agents"]["x"]["tokens"]["mean"] == 2.0


def test_by_agent_compares_one_evaluation_with_one(evaluation, capsys):
    a, b, c = (str(evaluation(name, line(0, ("x", 1)))) for name in "abc")
    assert main(["compare", "--a", a, "--b", b, c, "--by", "agent"]) == 1
    assert "found 1 on side A and 2 on B" in capsys.readouterr().err
