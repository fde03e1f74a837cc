"""Codeforces by version: v1 ends with the program that meets the hidden tests, v0 goes on; both stay as documented."""

import json
from dataclasses import replace
from pathlib import Path

import gymnasium
import pettingzoo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import marft_envs
from marft_envs.game.episode import Episode
from marft_envs.game.task import JudgeFailure
from marft_envs.records.replay import replay
from marft_envs.sandbox.judge_data import Judgement, Test, TestResult, Verdict
from tests.helpers.toy_games import toy_team
from tests.marft_envs.tasks.code.code_games import DOUBLE, RIGHT, SMALL_ONLY, WRONG, FakeJudge, code_tasks, said

V0_RECORDS = Path(__file__).with_name("codeforces_v0.jsonl")  # played before there was a v1
outdated = pytest.mark.filterwarnings("ignore:.*is out of date")  # ours, and Gymnasium's own

# ------------------------------------------------- what an agent can know of hidden tests

OUTCOMES = (Verdict.OK, Verdict.OK, Verdict.WA, Verdict.TLE, Verdict.RE)


class ScriptedJudge(FakeJudge):
    """Gives each program the verdict that a table has for the test, and writes it into the output, too."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def _result(self, program, submission, test):
        verdict = self.table[program, test.input]
        told = f"{program} on {test.input}: {verdict}".encode()
        return TestResult(verdict, float(verdict is Verdict.OK), output=told, stderr=told, reason=told.decode())


@st.composite
def plays(draw, hidden_verdicts=OUTCOMES):
    """A problem, settings, a script for every turn, and two tables of verdicts that differ in hidden tests alone."""
    examples = tuple(Test(b"e%d" % place, b"e") for place in range(draw(st.integers(0, 2))))
    hidden = tuple(Test(b"h%d" % place, b"h") for place in range(draw(st.integers(0 if examples else 1, 3))))
    programs = ("p = 0", "p = 1")
    public = {(p, test.input): draw(st.sampled_from(OUTCOMES)) for p in programs for test in examples}
    private = st.fixed_dictionaries({(p, t.input): st.sampled_from(hidden_verdicts) for p in programs for t in hidden})
    names = ("a_0", "b_0", "c_0")[: draw(st.integers(1, 3))]
    answering = (*draw(st.sets(st.sampled_from(names))), names[-1])
    horizon = draw(st.integers(1, 4))
    actions = st.sampled_from(("I do not know.", *map(said, programs)))
    script = draw(st.lists(actions, min_size=horizon * len(names), max_size=horizon * len(names)))
    chosen = {
        "horizon": horizon,
        "feedback": draw(st.sampled_from(("none", "verdict"))),
        "reward": draw(st.sampled_from(("success", "outcome"))),
        "render_mode": "ansi",
    }
    problem = replace(DOUBLE, examples=examples, tests=hidden)
    grading = draw(st.sampled_from(("fraction", "all")))
    tables = [public | draw(private) for _ in range(2)]
    return problem, grading, toy_team(*names, answering=answering), chosen, script, tables


def everything(env):
    """Return all that a player, a learner or a reader of records can see now."""
    game = env.unwrapped
    return json.dumps(
        {
            "observations": {agent: [str(seen := game.observe(agent)), seen.messages] for agent in env.possible_agents},
            "last": [str(part) for part in env.last()],
            "rewards": [env.rewards, game._cumulative_rewards],
            "infos": env.infos,
            "ends": [env.terminations, env.truncations],
            "state": str(env.state()),
            "render": env.render(),
            "record": game.episode().to_json(),
        }
    )


def watch(play, table, termination):
    """Play; return what was seen before each action, the game and its judge."""
    problem, grading, team, chosen, script, _ = play
    judge = ScriptedJudge(table)
    tasks = code_tasks(judge, [problem], grading=grading, termination=termination)
    env = marft_envs.FlexMG(tasks, team, **chosen)
    env.reset(seed=0)
    seen = []
    for action in script:
        if env.terminations[env.agent_selection] or env.truncations[env.agent_selection]:
            break
        seen.append(everything(env))
        try:
            env.step(action)
        except JudgeFailure:
            break
    return seen, env, judge


def meets_hidden(problem, submission):
    return any(test in problem.hidden for test in submission.tests)


@settings(deadline=None, max_examples=100)
@given(plays((*OUTCOMES, Verdict.INTERNAL)))
def test_nothing_of_hidden_tests_is_seen_before_the_last_action(play):
    problem, *_, (one, other) = play
    seen, env, judge = watch(play, one, "examples")
    assert seen == watch(play, other, "examples")[0]
    assert not any(meets_hidden(problem, submission) for submission in judge.asked[:-1])
    assert not any(env.truncations.values())


@settings(deadline=None, max_examples=100)
@given(plays())
def test_in_v0_a_game_that_hidden_tests_would_end_goes_on_and_shows_a_verdict_where_asked(play):
    problem, grading, team, chosen, script, (one, other) = play
    play = (problem, grading, team, {**chosen, "feedback": "none"}, script, None)
    games = sorted((watch(play, table, "solved") for table in (one, other)), key=lambda game: len(game[0]))
    (shorter, env, _), (longer, *_) = games
    assert [without_outcomes(seen) for seen in shorter] == [without_outcomes(seen) for seen in longer[: len(shorter)]]
    assert len(shorter) == len(longer) or next(iter(env.infos.values()))["success"] == 1


def without_outcomes(seen):
    """Leave out what v0 records of a round: the verdict on hidden tests, which `render` and records show."""
    return {key: value for key, value in json.loads(seen).items() if key not in ("record", "render")}


def test_v0_goes_on_where_v1_ends_and_tells_no_more_than_that_by_default():
    games = {}
    for termination in ("solved", "examples"):
        tasks = code_tasks(termination=termination)
        games[termination] = marft_envs.FlexMG(tasks, toy_team("a_0"), horizon=3, reward="outcome")
        games[termination].reset(seed=0)
        games[termination].step(said(SMALL_ONLY))
    v0, v1 = games["solved"], games["examples"]
    assert (v0.rewards, v0.terminations) == ({"a_0": 0.0}, {"a_0": False})
    assert (v1.rewards, v1.terminations) == ({"a_0": 4 / 5}, {"a_0": True})
    opening = "[environment]\nResults on the examples:\nExample 1: right.\nExample 2: right.\nRound 2 of 3."
    assert str(v0.observe("a_0")).endswith(opening)


def test_feedback_of_the_verdict_tells_of_hidden_tests_in_v0_and_of_examples_alone_in_v1():
    def second_round(program, termination):
        tasks = code_tasks(termination=termination)
        env = marft_envs.FlexMG(tasks, toy_team("a_0"), horizon=3, feedback="verdict")
        env.reset(seed=0)
        env.step(said(program))
        return str(env.observe("a_0"))

    assert "passed 1 of 3 tests (WA)" in second_round(SMALL_ONLY, "solved")
    assert "passed 1 of 2 tests (WA)" in second_round(WRONG, "solved")
    assert "passed 1 of 2 tests (WA)" in second_round(WRONG, "examples")
    assert "tests (" not in second_round(SMALL_ONLY, "examples")


# ------------------------------------------------------------------------ incentives


@pytest.mark.parametrize("grading", ["fraction", "all"])
@pytest.mark.parametrize("program", [RIGHT, SMALL_ONLY])
def test_a_program_that_passes_the_examples_is_paid_alike_in_every_round(program, grading):
    tasks = code_tasks(grading=grading)
    outcomes = [
        tasks.judge(tasks[0], said(program), round=round, last_round=last)
        for round, last in ((0, False), (0, True), (1, False), (2, True))
    ]
    assert outcomes == outcomes[:1] * 4
    assert outcomes[0].terminated
    assert outcomes[0].reward == (1.0 if program == RIGHT else 4 / 5 if grading == "fraction" else 0.0)


def test_without_examples_the_first_program_meets_the_hidden_tests_and_ends_the_game():
    asked = FakeJudge()
    tasks = code_tasks(asked, [replace(DOUBLE, examples=())])
    prose = tasks.judge(tasks[0], "I do not know.", round=0, last_round=False)
    assert (prose.terminated, prose.invalid, asked.asked) == (False, True, [])
    first = tasks.judge(tasks[0], said(WRONG), round=1, last_round=False)
    assert (first.terminated, first.reward, first.observation) == (True, 1 / 4, "")


def test_a_problem_of_examples_alone_is_run_once():
    asked = FakeJudge()
    tasks = code_tasks(asked, [replace(DOUBLE, tests=())])
    assert tasks.judge(tasks[0], said(RIGHT), round=0, last_round=False).terminated
    assert not tasks.judge(tasks[0], said(WRONG), round=0, last_round=False).terminated
    assert len(asked.asked) == 2


class Moody(FakeJudge):
    """A program that passes the examples the first time alone."""

    def _judge(self, submission):
        judged = super()._judge(submission)
        if len(self.asked) == 1:
            return judged
        return Judgement(Verdict.WA, tuple(replace(t, verdict=Verdict.WA, score=0.0) for t in judged.tests))


def test_a_program_that_passes_the_examples_by_luck_meets_them_again():
    tasks = code_tasks(Moody())
    outcome = tasks.judge(tasks[0], said(RIGHT), round=0, last_round=False)
    assert (outcome.reward, outcome.terminated) == (0.0, True)


# -------------------------------------------------------------------------- versions


def test_the_newest_version_is_made_without_a_warning_and_the_old_one_with_its_reason():
    assert marft_envs.make("marft/codeforces_duo").unwrapped.metadata["name"] == "marft/codeforces_duo-v1"
    reason = (
        r"marft/codeforces_duo-v0 is out of date: hidden tests can reach an agent in a later round\. "
        r"You should consider upgrading to marft/codeforces_duo-v1; their results differ\."
    )
    with pytest.warns(UserWarning, match=reason) as caught:
        env = marft_envs.make("marft/codeforces_duo-v0")
    assert [warning.filename for warning in caught] == [__file__]
    assert env.unwrapped.tasks.termination == "solved"


@outdated
@pytest.mark.parametrize("line", V0_RECORDS.read_text(encoding="utf-8").splitlines())
def test_records_of_v0_replay(line):
    record = Episode.from_json(line)
    names = ("dependency", "horizon", "reward", "feedback", "communication", "max_action_chars")
    chosen = {name: record.settings[name] for name in names}
    tasks = code_tasks(termination="solved")
    assert record.env_id == "marft/codeforces_trio-v0"
    assert replay(marft_envs.make(record.env_id, data=tasks, team=toy_team("a_0", "b_0"), **chosen), record) == []
    newer = marft_envs.make("marft/codeforces_trio-v1", data=code_tasks(), team=toy_team("a_0", "b_0"), **chosen)
    assert any("'termination': 'examples'" in difference for difference in replay(newer, record))


@outdated
def test_a_task_set_of_the_other_rule_is_refused():
    for version, other in ((0, "examples"), (1, "solved")):
        with pytest.raises(ValueError, match=rf"codeforces_duo-v{version}: the TaskSet .* has termination='{other}'"):
            marft_envs.make(f"marft/codeforces_duo-v{version}", data=code_tasks(termination=other))
        with pytest.raises(TypeError, match="unknown keyword 'termination'"):
            marft_envs.make(f"marft/codeforces_duo-v{version}", termination=other)


@outdated
@pytest.mark.parametrize("version", [0, 1])
def test_both_libraries_make_both_versions(version):
    env_id, tasks = f"marft/codeforces_duo-v{version}", code_tasks(termination=("solved", "examples")[version])
    shared = gymnasium.make(env_id, data=tasks, disable_env_checker=True)
    _, info = shared.reset(seed=0)
    assert shared.unwrapped.env.unwrapped.metadata["name"] == env_id
    assert info["turn"] == 0
    if hasattr(pettingzoo, "register"):
        for kind in ("aec", "parallel"):
            env = pettingzoo.make(kind, env_id, data=tasks)
            assert env.metadata["name"] == env_id


def test_a_version_of_ones_own_may_be_out_of_date(monkeypatch):
    from marft_envs.registration import registry

    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    made = []

    def load(data, split, *, rule="b"):
        made.append(rule)
        return code_tasks()

    options = {"teams": {"pair": toy_team("a_0", "b_0")}, "namespace": "versions"}
    old = {"rules": {"rule": "a"}, "deprecated": "100% of it was wrong"}
    try:
        marft_envs.register_task("own", load, **options, **old)
        marft_envs.register_task("own", load, version=1, keywords=["rule"], **options)
        with pytest.warns(UserWarning, match=r"100% of it was wrong.*versions/own_pair-v1"):
            marft_envs.make("versions/own_pair-v0")
        marft_envs.make("versions/own_pair")
        marft_envs.make("versions/own_pair", rule="c")
    finally:
        for name in [name for name in gymnasium.registry if name.startswith("versions/")]:
            del gymnasium.registry[name]
            if hasattr(pettingzoo, "register"):
                del pettingzoo.aec_registry[name], pettingzoo.parallel_registry[name]
    assert made == ["a", "b", "c"]
