"""Codeforces with the real judge: embedded problems, checker programs and function problems, as they are played."""

import copy
import json

import pytest

import envs_data
import marft_envs
from marft_envs.sandbox import Judge, Limits, ProgramChecker, Test
from marft_envs.sandbox.shared_judges import close_shared_judges, shared_judge
from marft_envs.tasks.code import CodeTasks
from marft_envs.tasks.code.function_tests import PREAMBLE, FunctionCall, driver, make_tests
from marft_envs.tasks.code.problem import Problem
from marft_envs.testing import check_environment
from tests.helpers.toy_games import say
from tests.marft_envs.tasks.code.code_games import said

BACKEND = "landlock"


@pytest.fixture(scope="module", autouse=True)
def judge():
    yield shared_judge(BACKEND)
    close_shared_judges()


def solution(problem: str, verdict: str, language: str = "python") -> str:
    """Return a program for an embedded problem."""
    wanted = (problem, verdict, language)
    found = (s for s in envs_data.attachment("codeforces", "solutions"))
    return next(s["source"] for s in found if (s["problem"], s["verdict"], s["language"]) == wanted)


def test_a_scripted_trio_solves_an_embedded_problem_over_two_rounds():
    env = marft_envs.make("marft/codeforces_trio-v1", judge=BACKEND)
    env.reset(seed=0, options={"task_id": "easy/open_vowels"})
    wrong, right = (solution("easy/open_vowels", verdict) for verdict in ("WA", "OK"))

    def script(agent, round, observation):
        if agent != "coder_0":
            return f"{agent} has looked at it."
        return said(right if "wrong answer" in observation else wrong)

    say(env, script)
    episode = env.unwrapped.episode()
    assert (episode.rewards, episode.terminated) == ((0.0, 1.0), True)
    first, second = episode.outcomes
    assert "Example 1: wrong answer.\nInput:\n" in first.observation
    assert second.detail["verdict"] == "OK"
    assert second.detail["passed"] == second.detail["tests"] > 2


def test_a_program_in_c_plus_plus_solves_the_same_problem_and_a_fraction_is_paid_for_a_wrong_one():
    rewards = {}
    env = marft_envs.make("marft/codeforces_solo-v1", judge=BACKEND, reward="outcome")
    for program, tag in (
        (solution("easy/open_vowels", "OK", "c++17"), "cpp"),
        (solution("easy/open_vowels", "WA"), "python"),
        ("print(", "python"),
    ):
        env.reset(seed=0, options={"task_id": "easy/open_vowels"})
        env.step(said(program, tag))
        rewards[program] = env.rewards["coder_0"]
    right, wrong, broken = rewards.values()
    assert (right, broken) == (1.0, 0.0)
    assert 0 < wrong < 1


def play(problem, program):
    tasks = CodeTasks("codeforces", [problem], judge=BACKEND)
    return tasks.judge(tasks[0], said(program), round=0, last_round=True)


SUM = "def check(input, output, expected):\n    a, b = map(int, output.split())\n    return a + b == int(input)\n"
SUM_OF_FILES = (
    "import sys\ngiven, right, said = (open(name).read() for name in sys.argv[1:])\n"
    "print(int(sum(map(int, said.split())) == int(given)))\n"
)


@pytest.mark.parametrize("checker", [ProgramChecker(SUM), ProgramChecker(SUM_OF_FILES, "files")])
def test_a_checker_program_judges_where_several_answers_are_right(checker):
    tests = (Test(b"7", b"3 4"), Test(b"10", b"5 5"))
    problem = Problem("split", "Split n into two.", tests=tests, checker=checker, limits=Limits(cpu_s=2))
    assert play(problem, "n = int(input())\nprint(1, n - 1)").reward == 1.0
    assert play(problem, "n = int(input())\nprint(3, 4)").reward == 0.5
    assert play(problem, "print('garbage')").reward == 0.0


def test_a_function_is_called_in_the_jail():
    tests = make_tests([FunctionCall([[1, 2, 3]], 6), FunctionCall([[]], 0)])
    problem = Problem("f", "Sum.", tests=tests, languages=("python",), preamble=PREAMBLE, driver=driver("total"))
    assert play(problem, "class Solution:\n    def total(self, a: List[int]) -> int:\n        return sum(a)").success
    assert play(problem, "def total(a):\n    print(6)\n    return sum(a) if a else None").reward == 0.5


def test_games_share_one_judge_which_copies_keep():
    first, second = (marft_envs.make("marft/codeforces_solo-v1", judge=BACKEND) for _ in range(2))
    for env in (first, second, copy.deepcopy(first)):
        tasks = env.unwrapped.tasks
        assert tasks._judge_here() is shared_judge(BACKEND)


def test_a_judge_of_ones_own_is_used_and_pickled_by_its_backend():
    import pickle

    with Judge(BACKEND, workers=1) as own:
        tasks = CodeTasks("codeforces", [Problem("1", "Two.", tests=(Test(b"", b"2"),))], judge=own)
        assert tasks.judge(tasks[0], said("print(2)"), round=0, last_round=True).success
        copied = pickle.loads(pickle.dumps(tasks))
    assert copied.judge(copied[0], said("print(2)"), round=0, last_round=True).success


def test_the_embedded_set_is_sound_and_passes_the_conformance_kit():
    ids = [task.id for split in ("train", "test") for task in CodeTasks.load("codeforces", split=split)]
    assert len(ids) == len(set(ids)) >= 40
    report = check_environment(lambda **kwargs: marft_envs.make("marft/codeforces_duo-v1", **kwargs), cycles=10)
    assert report.passed, str(report)


def test_solutions_are_not_part_of_a_task():
    for task in CodeTasks.load("codeforces"):
        assert task.answer == ""
        assert json.dumps(dict(task.meta))
