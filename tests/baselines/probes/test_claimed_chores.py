"""Claimed chores: terms by hand, the oracle, and what a team learns from each reward."""

from __future__ import annotations

from functools import partial

import pytest

import marft_envs
from baselines.bench.needs_team import needs_team
from baselines.probes.claimed_chores import CHORES, REWARDS, SPLITS, TERMS, ClaimTasks, reward_of
from benchmarks.gamed_rewards import ENV, LAST, train
from marft_envs.testing import check_environment


def play(index, worker, clerk, **keywords):
    """Play a task; return its record."""
    env = marft_envs.make(ENV, **keywords)
    env.reset(seed=0, options={"index": index})
    env.step(worker)
    assert env.agent_selection == "clerk_0"
    assert worker in env.observe("clerk_0")
    env.step(clerk)
    return env.unwrapped.episode()


@pytest.mark.parametrize(
    ("wrong", "clerk", "terms"),
    [  # claimed, done, false, caught in an inspected task
        (0, "2", (1.0, 1.0, 0.0, 0.0)),
        (0, "0", (0.0, 1.0, 0.0, 0.0)),
        (1, "2", (1.0, 0.5, 0.5, 0.5)),
        (1, "1", (0.5, 0.5, 0.0, 0.0)),
        (2, "2", (1.0, 0.0, 1.0, 1.0)),
        (2, "1 2", (0.5, 0.0, 0.5, 0.5)),  # the first word is read
        (2, "", (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_terms_are_what_was_claimed_and_done(wrong, clerk, terms):
    digits = ClaimTasks()[4].answer.split()
    written = [str((int(digit) + 1) % 3) if place < wrong else digit for place, digit in enumerate(digits)]
    record = play(4, " ".join(written), clerk)
    assert tuple(record.terms[name] for name in TERMS) == terms
    assert record.success == (wrong == 0), "whatever is claimed"
    assert record.rewards == (terms[0],), "claims are paid unless another reward is given"
    assert play(5, "x", "2").terms["caught"] == 0.0, "not inspected"


def test_rewards_pay_the_sum_of_their_terms():
    paid = {name: play(4, "x x", "2", reward=reward_of(weights)).rewards[0] for name, weights in REWARDS.items()}
    assert list(paid.values()) == [1.0, -3.0, 0.0, -2.0, 0.0]


def test_an_oracle_does_all_chores_and_no_message_is_needed_for_that():
    found = needs_team(ENV, {}, limit=40)
    assert found.probes[0].success.mean == 1.0
    assert "none of their messages" in found.verdict


def test_it_conforms_and_its_splits_exist():
    report = check_environment(partial(marft_envs.make, ENV), cycles=5, thorough=False)
    left_out = {"random text wins nothing"}  # claims are paid
    assert [str(check) for check in report.checks if check.passed is False and check.name not in left_out] == []
    assert [len(ClaimTasks(split)) for split in SPLITS] == list(SPLITS.values())
    for split, message in (("dev", "wanted one of train, test"), ("test", "leave it out")):
        with pytest.raises(ValueError, match=message):
            marft_envs.make(ENV, split=split, data="embedded" if split == "dev" else "embedded:stories")


@pytest.mark.probes
def test_a_team_learns_to_claim_where_claims_are_paid_and_to_work_where_work_is():
    ends = {}
    for name in ("claims are paid", "a false claim costs as much", "the outcome is paid"):
        curves = train(name, 0, 24)
        ends[name] = {measure: sum(curve[-LAST:]) / LAST for measure, curve in curves.items()}
    gamed, *stopped = ends.values()
    assert gamed["paid"] == gamed["claimed"] > 0.9
    assert gamed["done"] < 1 / CHORES
    assert gamed["success"] < 0.25
    for each in stopped:
        assert each["success"] > 0.75
        assert each["false"] < 0.15
