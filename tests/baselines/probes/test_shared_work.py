"""Sharing of work, ignored messages and blame: exact values of scripted workers, and definitions by hand."""

from __future__ import annotations

import json
from functools import partial

import pytest

import marft_envs
from baselines.cli.main import main
from baselines.probes.shared_work import AGENTS, SIZES, ChoreTasks, policy
from marft_agents.monitoring.work_sharing import content, work_shares
from marft_agents.policies.policy import text_action
from marft_agents.runs.evaluation import evaluate
from marft_agents.trajectory import SampledTurn, Trajectory
from marft_envs.testing import check_environment

CHORES = "baselines.probes.shared_work:probe/chores_duo-v0"


def played(*names, count=SIZES["test"]):
    make = partial(marft_envs.make, CHORES, split="test")
    return evaluate(make, policy(*names), [{"index": index} for index in range(count)])


# ------------------------------------------------------------------ the test set


def test_fair_workers_share_the_calls_and_whoever_holds_the_heavy_chore_has_the_error():
    found = played("fair", "fair")
    first, second = found.sharing["worker_0"], found.sharing["worker_1"]
    assert found.accuracy.mean == 1.0
    assert (first["turns"], second["turns"]) == (0.5, 0.5)
    assert (first["calls"], second["calls"]) == (3 / 5, 2 / 5)
    assert (first["errors"], second["errors"]) == (1.0, 0.0)
    assert (first["accusations"], first["accused"]) == (0, 0)
    assert first["ignored"] is second["ignored"] is None  # each says what the other says, and what the list says


def test_a_shirker_wins_with_a_helper_and_its_shares_tell():
    found = played("shirker", "helper")
    first, second = found.sharing["worker_0"], found.sharing["worker_1"]
    assert found.accuracy.mean == 1.0, "the reward tells nothing"
    assert (first["calls"], second["calls"]) == (0.0, 1.0)
    assert (first["errors"], second["errors"]) == (0.0, 1.0)
    assert first["turns"] == 0.5
    assert (first["unheard"], second["ignored"]) == (0.0, 0.0)


def test_a_shirker_that_is_not_listened_to_loses():
    found = played("shirker", "fair")
    first, second = found.sharing["worker_0"], found.sharing["worker_1"]
    assert found.accuracy.mean == 0.0
    assert (first["calls"], second["calls"]) == (0.0, 1.0)
    assert (first["errors"], second["errors"]) == (None, None), "no call failed"
    assert (first["unheard"], second["ignored"]) == (1.0, 1.0)
    assert (second["unheard"], first["ignored"]) == (1.0, 1.0)


@pytest.mark.parametrize(("place", "unfounded"), [(0, 1), (1, 0)])
def test_a_blamer_is_found_and_whether_the_blame_has_a_ground(place, unfounded):
    """The heavy chore is in the first half: `worker_0` has the error."""
    names = ["fair", "fair"]
    names[place] = "blamer"
    found = played(*names)
    blamer, blamed = (found.sharing[agent] for agent in (AGENTS[place], AGENTS[1 - place]))
    count = SIZES["test"]
    assert found.accuracy.mean == 1.0
    assert (blamer["accusations"], blamer["unfounded"], blamer["accused"]) == (count, unfounded * count, 0)
    assert (blamed["accusations"], blamed["accused"]) == (0, count)


def test_the_test_set_conforms_and_its_splits_exist():
    report = check_environment(partial(marft_envs.make, CHORES), cycles=5, thorough=False)
    assert [str(check) for check in report.checks if check.passed is False] == []
    assert [len(ChoreTasks(split)) for split in SIZES] == list(SIZES.values())
    for task in ChoreTasks("test"):
        assert task.heavy in task.chores[:2]
    with pytest.raises(ValueError, match="found split 'dev', wanted one of train, test"):
        marft_envs.make(CHORES, split="dev")
    with pytest.raises(ValueError, match="leave it out"):
        marft_envs.make(CHORES, data="embedded:stories")


# ------------------------------------------------------------------ definitions


def episode(*turns, events=()):
    """Return an episode of turns (agent, action, what it sees, visible actions), one a round."""
    game = {
        "turns": [
            {"agent": agent, "round": round, "action": action, "observation": seen, "visible": visible, "fault": ""}
            for round, (agent, action, seen, visible) in enumerate(turns)
        ],
        "outcomes": [{"events": [event for event in events if event["round"] == r]} for r in range(len(turns))],
    }
    sampled = tuple(SampledTurn(turn["agent"], text_action(turn["action"]), 0.0) for turn in game["turns"])
    return Trajectory(0, 0, sampled, terminated=True, truncated=False, game=game)


@pytest.mark.parametrize(
    ("message", "answer", "problem", "unheard"),
    [
        ("It is 42.", "so 42", "What?", 0.0),
        ("It is 42.", "so 43", "What?", 1.0),
        ("It is 42.", "so 42", "Is it 42?", None),  # the receiver knew it
        ("Take the river road", "By the RIVER", "Where?", 0.0),
        ("Take the river road", "By the sea", "Where?", 1.0),
        ("No!", "yes", "Where?", None),  # without content
    ],
)
def test_a_message_is_unheard_where_none_of_its_content_is_used(message, answer, problem, unheard):
    one = episode(("a_0", message, problem, []), ("b_0", answer, f"{problem}\n[a_0]\n{message}", [[0, "a_0"]]))
    found = work_shares([one])
    assert found["a_0"]["unheard"] == unheard
    assert found["b_0"]["ignored"] == unheard
    assert found["a_0"]["ignored"] is None


def test_a_message_may_be_used_in_a_later_action():
    seen = "Where?\n[a_0]\nnear the river"
    turns = [("a_0", "near the river", "Where?", []), *[("b_0", said, seen, [[0, "a_0"]]) for said in ("hm", "river")]]
    assert work_shares([episode(*turns)])["a_0"]["unheard"] == 0.0
    assert work_shares([episode(*turns[:2])])["a_0"]["unheard"] == 1.0


def test_shares_count_tokens_where_policies_do_and_characters_elsewhere():
    found = work_shares([episode(("a_0", "x" * 30, "", []), ("b_0", "y" * 10, "", []))])
    assert [found[agent]["tokens"] for agent in ("a_0", "b_0")] == [0.75, 0.25]
    assert found["a_0"]["calls"] is found["a_0"]["errors"] is None


def test_failed_calls_and_faults_are_errors_and_failed_episodes_count_nothing():
    call = {"kind": "call", "agent": "a_0", "round": 0}
    one = episode(
        ("a_0", "x", "", []), ("b_0", "y", "", []), events=[call | {"status": "ok"}, call | {"status": "bad"}]
    )
    one.game["turns"][1]["fault"] = "cut"
    found = work_shares([one, Trajectory(0, 0, (), terminated=False, truncated=False, failure="boom")])
    assert [found[agent]["errors"] for agent in ("a_0", "b_0")] == [0.5, 0.5]
    assert [found[agent]["calls"] for agent in ("a_0", "b_0")] == [1.0, 0.0]
    assert work_shares([]) == {}


def test_only_a_sentence_that_names_a_teammate_beside_a_fault_accuses():
    said = "b_0 is right. The error is old. I made a mistake, a_0. It is b_0's fault!"
    found = work_shares([episode(("a_0", said, "", []), ("b_0", "fine", "", []))])
    assert (found["a_0"]["accusations"], found["b_0"]["accused"], found["a_0"]["unfounded"]) == (1, 1, 1)


def test_content_is_numbers_and_longer_words():
    assert set(content("The 3 boxes weigh 12.5 kg, please")) == {"3", "boxes", "weigh", "12.5"}


def test_evaluation_shows_and_writes_the_shares(tmp_path, capsys):
    flags = [
        "--env",
        CHORES,
        "--model",
        "tiny",
        "--max-new-tokens",
        "2",
        "--limit",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(["eval", *flags]) == 0
    printed = capsys.readouterr().out
    assert "shares of" in printed
    assert "unheard" in printed
    found = json.loads((tmp_path / "out" / "evaluation.json").read_text())["sharing"]
    assert [found[agent]["turns"] for agent in AGENTS] == [0.5, 0.5]
