"""The kit passes every registered environment, and catches environments that break one rule each."""

from __future__ import annotations

from functools import cache, partial

import gymnasium
import pytest
from pettingzoo.test import performance_benchmark

import marft_envs
from marft_envs.dependency import full, routed
from marft_envs.registration import registry
from marft_envs.registration.plugins import UNLISTED
from marft_envs.testing import RULES, check_environment, run_rule
from marft_envs.testing.repeatable import compare_elsewhere
from marft_envs.wrappers import CandidateAction, EmbeddingObservation, TokenAction, VocabularyTokenizer
from tests.helpers.third_party_game import ThirdPartyGame
from tests.helpers.toy_games import toy_game
from tests.marft_envs.testing import broken_games

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date")  # codeforces v0 conforms, too
BY_NAME = {rule.name: rule for rule in RULES}
QUICK = [rule.name for rule in RULES if not rule.thorough]


# Other tests register probe games; plugins with many ids check their own.
OURS = [
    name for name in marft_envs.envs() if name.startswith("marft/") and marft_envs.spec(name).plugin not in UNLISTED
]


# The other tasks are of the kinds of these, with the same teams; those of codeforces are checked beside its tasks.
WITH_SMALLEST_AND_LARGEST = ("tools", "recall")


def unlike_others(name):
    """Return True for one task with every team, for some with the smallest and largest, and for all with the duo.

    Teams are no part of a task, so that each kind of task need not be checked with each team.
    """
    spec = marft_envs.spec(name)
    if spec.team == "duo" or spec.deprecated:
        return spec.team == "duo"
    return spec.task == "math" or (spec.task in WITH_SMALLEST_AND_LARGEST and spec.team in ("solo", "dozen"))


@cache
def tasks_of(name):
    return marft_envs.make(name).unwrapped.tasks


def quick(name, **keywords):
    """Make an environment; those of tau2 have 100 rounds and long prompts, which would take seconds."""
    return marft_envs.make(name, **({"horizon": 20} if "tau2" in name else {}), **keywords)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if unlike_others(name) else pytest.mark.long) for name in OURS]
)
def test_every_registered_environment_conforms(name):
    report = check_environment(partial(quick, name, data=tasks_of(name)), cycles=10)
    assert [check.name for check in report.checks] == QUICK
    assert report.passed, str(report)
    left_out = {check.name for check in report.checks if check.passed is None}
    assert left_out <= {"no answer is judged"}, str(report)  # worlds have a goal and no judge


@pytest.mark.parametrize("like_others", [False, pytest.param(True, marks=pytest.mark.long)])
def test_registered_environments_play_alike_in_other_processes(like_others):
    """All that are unlike others, and every third of those that are like them."""
    names = [name for name in OURS if unlike_others(name) != like_others]
    compare_elsewhere([partial(quick, name) for name in names[:: 3 if like_others else 1]])


@pytest.mark.parametrize("name", OURS)
def test_pettingzoos_benchmark_runs_on_every_registered_environment(name, capsys, short_benchmark):
    performance_benchmark(marft_envs.make(name, data=tasks_of(name)))
    assert "Finished performance benchmark" in capsys.readouterr().out


@pytest.mark.parametrize(
    "kwargs",
    [
        {"horizon": 3, "feedback": "verdict"},
        {"horizon": 2, "communication": "last", "dependency": full(delayed="all")},
        {"horizon": 2, "dependency": routed(by="a_0"), "max_action_chars": 50},
    ],
)
def test_other_settings_conform(kwargs):
    report = check_environment(lambda **more: toy_game("a_0", "b_0", "c_0", **kwargs, **more))
    assert report.passed, str(report)


# --------------------------------------------------------------- broken games

CAUGHT = [
    (broken_games.Unplayable, "a game is played"),
    (broken_games.Speechless, "no answer is judged"),
    (broken_games.Plain, "pettingzoo api_test"),
    (broken_games.Unseeded, "pettingzoo seed_test"),
    (broken_games.Wasteful, "pettingzoo parallel_api_test"),
    (broken_games.Unseeded, "pettingzoo parallel_seed_test"),
    (broken_games.Silent, "pettingzoo render_test"),
    (broken_games.Stateless, "pettingzoo state_test"),
    (broken_games.Fragile, "pettingzoo performance_benchmark"),
    (broken_games.Unseeded, "gymnasium check_env"),
    (broken_games.Alphabetic, "gymnasium vectors"),
    (broken_games.Crowded, "gymnasium vectors"),
    (broken_games.Wasteful, "spaces are kept"),
    (broken_games.Alphabetic, "text spaces hold text"),
    (broken_games.Uneven, "all agents end together"),
    (broken_games.Unfair, "one team reward"),
    (broken_games.Boundless, "one team reward"),
    (broken_games.Wordy, "infos are numbers with fixed keys"),
    (broken_games.Late, "infos are numbers with fixed keys"),
    (broken_games.Worn, "observe is pure"),
    (broken_games.Fussy, "any text is an action"),
    (broken_games.Lost, "any text is an action"),
    (broken_games.Generous, "random text wins nothing"),
    (broken_games.Strict, "unknown options are ignored"),
    (broken_games.Sticky, "a reset in mid-game starts anew"),
    (broken_games.Onceler, "closes twice"),
    (broken_games.Forgetful, "copies go on alike"),
    (broken_games.Crowded, "games side by side agree"),
    (broken_games.Hashing, "other processes agree"),
    (broken_games.Gambler, "global generators untouched"),
    (broken_games.Nosy, "exactly what D allows is seen"),
    (broken_games.Blind, "exactly what D allows is seen"),
    (broken_games.Whispering, "unseen words change nothing"),
    (broken_games.Moody, "records replay byte for byte"),
    (broken_games.Slow, "overhead"),
]


def test_a_broken_game_for_every_rule():
    assert {name for _, name in CAUGHT} == set(BY_NAME)


@pytest.mark.parametrize(("broken", "name"), CAUGHT)
def test_each_broken_rule_is_caught(broken, name, short_benchmark):
    check = run_rule(BY_NAME[name], partial(broken_games.make_broken, broken), cycles=10)
    assert check.passed is False
    assert check.found
    assert f"FAIL {name}: " in str(check)
    assert check.advice in str(check)


def test_markers_do_not_catch_a_leak_of_lengths():
    """Why there are two rules of visibility."""
    check = run_rule(
        BY_NAME["exactly what D allows is seen"], partial(broken_games.make_broken, broken_games.Whispering)
    )
    assert check.passed


def test_a_whole_report_fails_with_one_check_and_says_what_to_do():
    report = check_environment(partial(broken_games.make_broken, broken_games.Unfair), cycles=5)
    assert not report.passed
    assert {check.name for check in report.checks if check.passed is False} >= {"one team reward"}
    assert "to fix: pay all agents the same finite number" in str(report)


def test_promised_individual_rewards_conform_and_the_report_says_how_to_train_on_them():
    report = check_environment(partial(broken_games.make_broken, broken_games.Individual), cycles=5)
    assert report.passed, str(report)
    paid = next(check.found for check in report.checks if check.name == "one team reward")
    assert paid == (
        "individual rewards (a_0 1, b_0 0, c_0 0): train on them with --rewards own "
        "(ippo, or an algorithm without a critic); --rewards team takes their mean"
    )


# ------------------------------------------------------- not ours, not as text


def test_a_third_party_game_conforms_and_what_cannot_be_known_of_it_is_said():
    report = check_environment(ThirdPartyGame, cycles=10)
    assert report.passed, str(report)
    left_out = {check.name: check.found for check in report.checks if check.passed is None}
    assert set(left_out) == {
        "pettingzoo state_test",
        "no answer is judged",
        "random text wins nothing",
        "exactly what D allows is seen",
        "unseen words change nothing",
        "records replay byte for byte",
    }
    assert "no FlexMG" in left_out["records replay byte for byte"]


def test_what_no_other_process_can_make_is_left_out_not_failed(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    marft_envs.register("here/only-v0", ThirdPartyGame)
    check = run_rule(BY_NAME["other processes agree"], partial(marft_envs.make, "here/only-v0"))
    assert check.passed is None
    assert "another process: " in check.found
    assert "no environment has the id 'here/only-v0'" in check.found
    del gymnasium.registry["here/only-v0"]


@pytest.mark.parametrize(
    "view",
    [
        lambda env: CandidateAction(env, [f"\\boxed{{{number}}}" for number in range(5)]),
        lambda env: EmbeddingObservation(CandidateAction(env, ["\\boxed{1}", "\\boxed{2}"])),
        lambda env: TokenAction(env, VocabularyTokenizer(["\\boxed{", *"0123456789", "}"]), max_new_tokens=4),
    ],
)
def test_numeric_views_conform(view):
    report = check_environment(lambda **kwargs: view(toy_game("a_0", "b_0", **kwargs)), cycles=10)
    assert report.passed, str(report)
