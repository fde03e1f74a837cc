"""Rules of codeforces: what is run when, what is said of it, what is paid; and that hidden tests stay hidden."""

import copy
import dataclasses
import json
import pickle
import threading

import pytest

import marft_envs
from marft_envs.game.task import JudgeFailure, UnknownTaskError
from marft_envs.records.replay import replay
from marft_envs.sandbox.judge_data import Submission, Test, Verdict
from marft_envs.tasks.code import CodeTasks
from marft_envs.tasks.code.loading import load_problems
from marft_envs.tasks.code.problem import Problem
from marft_envs.testing import check_environment
from tests.helpers.toy_games import say
from tests.marft_envs.tasks.code.code_games import (
    BROKEN,
    CRASHES,
    DOUBLE,
    EXAMPLES,
    HIDDEN,
    RIGHT,
    SECRET,
    SMALL_ONLY,
    WRONG,
    FakeJudge,
    code_tasks,
    said,
)

TEAMS = ("solo", "duo", "trio", "quartet", "octet", "dozen", "routed")


def judge(tasks, program, *, round=0, last_round=True, tag="python"):
    return tasks.judge(tasks[0], said(program, tag), round=round, last_round=last_round)


# rule, program, round, last: reward, terminated, success, tests that were run
BOTH = ("examples", "solved")
ROUNDS = [
    (BOTH, RIGHT, 0, True, 1.0, True, True, 5),
    (BOTH, SMALL_ONLY, 0, True, 4 / 5, True, False, 5),
    (BOTH, WRONG, 0, True, 1 / 5, True, False, 5),
    (BOTH, BROKEN, 0, True, 0.0, True, False, 5),
    (("examples",), RIGHT, 0, False, 1.0, True, True, 2 + 5),
    (("solved",), RIGHT, 0, False, 1.0, True, True, 2 + 3),
    (("examples",), SMALL_ONLY, 0, False, 4 / 5, True, False, 2 + 5),
    (("solved",), SMALL_ONLY, 0, False, 0.0, False, False, 2 + 3),
    (BOTH, WRONG, 0, False, 0.0, False, False, 2),
    (BOTH, BROKEN, 0, False, 0.0, False, False, 2),
    (("examples",), RIGHT, 1, False, 1.0, True, True, 2 + 5),
    (("solved",), RIGHT, 1, False, 1.0, True, True, 2 + 3),
    (BOTH, RIGHT, 2, True, 1.0, True, True, 5),
    (("examples",), SMALL_ONLY, 2, True, 4 / 5, True, False, 5),
    (("solved",), SMALL_ONLY, 2, True, 4 / 5, False, False, 5),
    (("examples",), BROKEN, 2, True, 0.0, True, False, 5),
    (("solved",), BROKEN, 2, True, 0.0, False, False, 5),
]


@pytest.mark.parametrize(("rules", "program", "round", "last", "reward", "terminated", "success", "count"), ROUNDS)
def test_the_rules_of_rounds(rules, program, round, last, reward, terminated, success, count):
    for termination in rules:
        asked = FakeJudge()
        outcome = judge(code_tasks(asked, termination=termination), program, round=round, last_round=last)
        assert (outcome.reward, outcome.terminated, outcome.success) == (reward, terminated, success)
        assert outcome.invalid is False
        assert sum(len(submission.tests) for submission in asked.asked) == count
        assert bool(outcome.observation) is (not last and not terminated)


def test_the_judge_gets_the_program_with_limits_checker_and_each_test_once():
    asked = FakeJudge()
    judge(code_tasks(asked), RIGHT)
    (submission,) = asked.asked
    assert submission.tests == EXAMPLES + HIDDEN[1:]
    assert submission.limits == DOUBLE.limits
    assert submission.language == "python"
    assert submission.source == f"{RIGHT}\n".encode()


def test_grading_all_pays_only_a_whole_pass_and_stops_at_the_first_failure():
    asked = FakeJudge()
    tasks = code_tasks(asked, grading="all")
    assert judge(tasks, WRONG).reward == 0.0
    assert asked.asked[-1].stop_on_failure
    assert judge(tasks, RIGHT).reward == 1.0


def test_feedback_tells_of_each_example_what_was_expected_and_found():
    observation = judge(code_tasks(), WRONG, last_round=False).observation
    assert observation == (
        "Results on the examples:\nExample 1: right.\nExample 2: wrong answer.\nInput:\n-3\nExpected:\n-6\nFound:\n4"
    )
    assert "ZeroDivisionError: division by zero" in judge(code_tasks(), CRASHES, last_round=False).observation
    assert "does not compile:\nSyntaxError" in judge(code_tasks(), BROKEN, last_round=False).observation


def test_an_answer_without_a_program_is_invalid_and_needs_no_judge():
    tasks = CodeTasks("codeforces", [DOUBLE], judge="no such backend")
    for answer in (None, "", "no idea", "```json\n{}\n```", "```python\n\n```"):
        early = tasks.judge(tasks[0], answer, round=0, last_round=False)
        assert (early.reward, early.terminated, early.invalid) == (0.0, False, True)
        assert "no program" in early.observation
        for round in (0, 2):
            late = tasks.judge(tasks[0], answer, round=round, last_round=True)
            assert (late.reward, late.terminated, late.invalid) == (0.0, True, True)


def test_a_judge_that_fails_is_a_failure_and_no_reward():
    with pytest.raises(JudgeFailure, match=r"fake.*'1/A': the jail fell over; leave this episode out"):
        judge(code_tasks(), "print('unknown to the fake')")


class HalfBroken(FakeJudge):
    """Fails on the last test only, after one that is wrong."""

    def _judge(self, submission):
        judged = super()._judge(submission)
        lost = dataclasses.replace(judged.tests[-1], verdict=Verdict.INTERNAL, score=0.0, reason="lost")
        return dataclasses.replace(judged, tests=(*judged.tests[:-1], lost))


def test_a_failure_on_one_test_is_not_a_lower_fraction():
    with pytest.raises(JudgeFailure, match="lost"):
        judge(code_tasks(HalfBroken()), WRONG)


def test_a_backend_that_does_not_exist_is_named_at_the_first_judging_only():
    env = marft_envs.make("marft/codeforces_solo-v1", data=code_tasks_of("no such backend"))
    env.reset(seed=0)
    with pytest.raises((ValueError, RuntimeError), match="no such backend"):
        env.step(said(RIGHT))


def code_tasks_of(backend):
    return CodeTasks("codeforces", [DOUBLE], judge=backend)


# -------------------------------------------------------------------- secrets


@pytest.mark.parametrize("program", [RIGHT, SMALL_ONLY, WRONG, CRASHES, BROKEN])
@pytest.mark.parametrize("last", [True, False])
def test_hidden_tests_reach_no_task_no_outcome_and_no_trace(program, last):
    tasks = code_tasks()
    outcome = judge(tasks, program, last_round=last)
    env = marft_envs.make("marft/codeforces_trio-v1", data=tasks, feedback="verdict", horizon=2)
    env.reset(seed=0)
    for agent in env.agent_iter():
        ended = env.terminations[agent] or env.truncations[agent]
        env.step(None if ended else said(program))
    shown = [
        repr(tasks[0]), repr(dataclasses.asdict(tasks[0])), repr(outcome), repr(DOUBLE),
        env.unwrapped.episode().to_json(), str(env.unwrapped.state()), json.dumps(env.unwrapped.settings),
    ]  # fmt: skip
    for text in shown:
        assert str(SECRET) not in text
        assert str(2 * SECRET) not in text


def test_the_prompt_says_all_that_is_public():
    prompt = code_tasks()[0].prompt
    parts = (
        "Double\n", "Print twice", "Input:\nAn integer x.", "Output:\n2x.", "Example 2, input:\n-3\n",
        "Note:\n2 + 2", "1.5 s and 64 MB", "Python 3 (standard library only) or C++17", "```python or ```cpp",
    )  # fmt: skip
    assert [part for part in parts if part not in prompt] == []
    only = code_tasks(languages=("c++20",))[0].prompt
    assert "C++20" in only
    assert "ython" not in only
    assert code_tasks()[0].meta == {"rating": 800, "tags": "math", "tests": 5}


def test_languages_are_taken_as_asked_and_mapped_to_those_of_the_judge():
    asked = FakeJudge()
    tasks = code_tasks(asked, languages=("c++20",))
    assert judge(tasks, RIGHT).invalid, "Python was not asked for"
    judge(tasks, RIGHT, tag="cpp")
    assert asked.asked[-1].language == "c++20"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"languages": ()}, "languages: found none"),
        ({"languages": ("pyton",)}, "'pyton'"),
        ({"grading": "half"}, "'fraction' or 'all'"),
        ({"termination": "never"}, "'examples' or 'solved'"),
        ({"problems": (DOUBLE, DOUBLE)}, "two problems have the id '1/A'"),
        ({"problems": (dataclasses.replace(DOUBLE, languages=("python",)),), "languages": ("c++",)}, "takes python"),
    ],
)
def test_a_set_that_can_not_be_played_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        code_tasks(**wrong)


def test_a_problem_without_tests_is_refused():
    with pytest.raises(ValueError, match="no tests"):
        Problem("x", "Do it.")


def test_an_unknown_task_names_close_ones():
    with pytest.raises(UnknownTaskError, match="did you mean 1/A"):
        code_tasks().index("1/B")


# ---------------------------------------------------------------------- games


def test_a_trio_solves_a_problem_in_the_second_round():
    env = marft_envs.make("marft/codeforces_trio-v1", data=code_tasks())
    env.reset(seed=0)
    seen = {}

    def script(agent, round, observation):
        seen[agent, round] = observation
        if agent != "coder_0":
            return f"{agent} in round {round}"
        return said(RIGHT if "Expected:\n-6\nFound:\n4" in observation else WRONG)

    say(env, script)
    episode = env.unwrapped.episode()
    assert (episode.rewards, episode.terminated, episode.truncated) == ((0.0, 1.0), True, False)
    assert [turn.agent for turn in episode.turns] == ["planner_0", "coder_0", "tester_0"] * 2
    assert WRONG in seen["tester_0", 0]
    assert "tester_0 in round 0" in seen["coder_0", 1]
    assert "tester_0 in round 0" in seen["planner_0", 1]
    assert "Expected" not in seen["tester_0", 0]
    assert replay(marft_envs.make("marft/codeforces_trio-v1", data=code_tasks()), episode) == []


@pytest.mark.parametrize(("program", "rewards"), [(SMALL_ONLY, (4 / 5,)), (WRONG, (0.0, 0.0, 1 / 5))])
def test_a_trio_that_never_solves_it_is_paid_once_and_terminates(program, rewards):
    env = marft_envs.make("marft/codeforces_trio-v1", data=code_tasks(), reward="outcome")
    env.reset(seed=0)
    say(env, lambda agent, round, observation: said(program))
    episode = env.unwrapped.episode()
    assert episode.rewards == rewards
    assert (episode.terminated, episode.truncated) == (True, False)


@pytest.mark.parametrize("team", TEAMS)
def test_every_team_passes_the_conformance_kit(team):
    tasks = code_tasks()

    def make(**kwargs):
        return marft_envs.make(f"marft/codeforces_{team}-v1", data=tasks, **kwargs)

    report = check_environment(make, cycles=30)
    assert report.passed, str(report)
    assert tasks._judge.asked == [], "no text of the kit holds a program"


def test_copies_in_mid_game_share_the_judge_and_go_on_alike():
    tasks = code_tasks()
    env = marft_envs.make("marft/codeforces_duo-v1", data=tasks, horizon=2)
    env.reset(seed=0)
    env.step("plan")
    env.step(said(WRONG))
    clones = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    assert clones[0].unwrapped.tasks is tasks
    for game in (env, *clones):
        game.step("plan")
        game.step(said(RIGHT))
        assert game.rewards == {"planner_0": 1.0, "coder_0": 1.0}


class Held(FakeJudge):
    """A judge with things that can't be pickled, as a real one."""

    backend = "landlock"


def test_a_judge_is_pickled_by_its_backend():
    tasks = code_tasks(Held())
    assert pickle.loads(pickle.dumps(tasks))._judge == "landlock"
    assert isinstance(tasks._judge, Held)


def test_keywords_of_the_tasks_are_keywords_of_make(tmp_path):
    row = {
        "id": "1/A", "description": "Print twice the number.", "examples": [], "time_limit": 1,
        "official_tests": [{"input": "1", "output": "2"}],
    }  # fmt: skip
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(row))
    held = FakeJudge()
    env = marft_envs.make("marft/codeforces_solo-v1", data=str(path), judge=held, grading="all", languages=["python"])
    env.reset(seed=0)
    env.step(said(RIGHT))
    assert held.asked[0].stop_on_failure
    with pytest.raises(TypeError, match="did you mean judge"):
        marft_envs.make("marft/codeforces_solo-v1", jugde="auto")
    with pytest.raises(TypeError, match="judge with a TaskSet"):
        marft_envs.make("marft/codeforces_solo-v1", data=code_tasks(), judge="auto")
    with pytest.raises(TypeError, match="unknown keyword 'judge'"):
        marft_envs.make("marft/math_solo-v0", judge="auto")


def test_many_threads_may_judge_at_once():
    tasks = code_tasks()
    outcomes = {}

    def work(place):
        program = (RIGHT, SMALL_ONLY, WRONG)[place % 3]
        outcomes[place] = [judge(tasks, program).reward for _ in range(20)]

    threads = [threading.Thread(target=work, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {place: [(1.0, 4 / 5, 1 / 5)[place % 3]] * 20 for place in range(6)}


def test_a_function_problem_is_completed_before_it_is_judged():
    asked = FakeJudge()
    problem = Problem(
        "f", "Double.", tests=(Test(b"[1]\n", b"2"),), languages=("python",), preamble="import math", driver="_call()"
    )
    tasks = code_tasks(asked, [problem])
    with pytest.raises(JudgeFailure):
        judge(tasks, "def double(x): return 2 * x")
    assert asked.asked[0].source == b"import math\ndef double(x): return 2 * x\n\n_call()"
    assert "the function in Python 3" in tasks[0].prompt
    assert isinstance(asked.asked[0], Submission)


def test_the_fixed_sentences_of_a_prompt_can_be_left_out():
    problem = load_problems("codeforces", split="test")[0]
    told, plain = (CodeTasks("one", [problem], instructions=wanted) for wanted in (True, False))
    assert told[0].prompt.startswith(f"{plain[0].prompt}\n\nLimits: ")
    assert (told.settings.get("instructions"), plain.settings["instructions"]) == (None, False)
