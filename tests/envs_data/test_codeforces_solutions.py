"""Every solution of every embedded problem, right, wrong or slow, gets from the judge exactly the stated verdict.

Those of every 24th problem are judged by default, `-m slow` adds the others: C++ solutions take a while to compile,
slow ones their time limit. Slow Python, which takes nearly as long on its other tests, is left to `-m slow` altogether.
"""

import pytest

import envs_data
from marft_envs.sandbox import Judge, Limits, ProgramChecker, Submission, Test

ROWS = {row["id"]: row for split in ("train", "test") for row in envs_data.rows("codeforces", split)}
SOLUTIONS = envs_data.attachment("codeforces", "solutions")
QUICK = sorted(ROWS)[::24]
SLOW = ("python", "TLE")


@pytest.fixture(scope="module")
def judge():
    with Judge() as judge:
        yield judge


def submission(solution):
    row = ROWS[solution["problem"]]
    source = row["generated_checker"]
    return Submission(
        solution["source"],
        solution["language"],
        tests=[Test(test["input"].encode(), test["output"].encode()) for test in row["official_tests"]],
        limits=Limits(cpu_s=row["time_limit"], wall_s=60, memory_mb=int(row["memory_limit"])),
        checker=ProgramChecker(source, "files") if source else row["checker"],
        stop_on_failure=solution["verdict"] != "OK",
    )


def surprises(judge, solutions):
    """Judge the solutions; return those whose verdict is not the stated one, with the test that says so."""
    judgements = judge.run_many(map(submission, solutions))
    found = []
    for solution, judgement in zip(solutions, judgements, strict=True):
        if judgement.verdict != solution["verdict"]:
            place = next((i for i, test in enumerate(judgement.tests) if test.verdict == judgement.verdict), None)
            reason = judgement.compile_output or (judgement.tests[place] if place is not None else "")
            name = f"{solution['problem']} {solution['language']} {solution['idea'] or 'reference'}"
            found.append(f"{name}: {judgement.verdict}, wanted {solution['verdict']}; test {place}: {reason}")
    return found


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["every_24th", "others"])
@pytest.mark.parametrize("language", ["python", "c++17"])
def test_solutions_get_the_verdicts_they_state(judge, language, quick):
    own = [each for each in SOLUTIONS if each["language"] == language]
    now = [each["problem"] in QUICK and (language, each["verdict"]) != SLOW for each in own]
    chosen = [each for each, early in zip(own, now, strict=True) if early == quick]
    assert {each["problem"] for each in chosen} >= (set(QUICK) if quick else set(ROWS) - set(QUICK))
    assert surprises(judge, chosen) == []
