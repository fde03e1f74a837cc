"""Bad input is refused with words that say what to do, before anything runs."""

import pytest

from marft_envs.sandbox import Judge, Limits, SandboxError, Submission, Test

TESTS = [Test(b"", b"")]
MANY = b"x" * (100 << 20)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", "pyhton", TESTS), "did you mean python"),
        (("x", "rust", TESTS), "wanted one of c\\+\\+17, c\\+\\+20, python"),
        (("x", "python", []), "tests: found none"),
        ((MANY, "python", TESTS), "program: found 104,857,600 bytes, wanted at most"),
        (("x", "python", [Test(b"", b""), Test(MANY, b"")]), r"tests\[1\].input: found 104,857,600 bytes"),
        (("x", "python", [Test(b"", MANY)]), r"tests\[0\].output: found 104,857,600"),
        (("x", "python", [Test("text", b"")]), r"tests\[0\].input: found str, wanted bytes"),
        (("x", "python", TESTS, Limits(), "tokenz"), "did you mean tokens"),
    ],
)
def test_a_submission_that_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Submission(*arguments)


@pytest.mark.parametrize("limits", [{"cpu_s": 0}, {"memory_mb": 0}, {"wall_s": 0}, {"output_mb": -1}, {"cpu_s": 1e9}])
def test_limits_of_nothing_are_refused(limits):
    with pytest.raises(ValueError, match=f"Limits.{next(iter(limits))}: found"):
        Limits(**limits)


def test_text_that_is_no_unicode_is_a_program_like_any_other():
    assert Submission("x\ud800", "python", TESTS).source == b"x\xed\xa0\x80"


def test_a_judge_names_the_backends():
    with pytest.raises(ValueError, match="did you mean docker"):
        Judge(backend="dokcer")
    with pytest.raises(ValueError, match="workers: found 0"):
        Judge(backend="landlock", workers=0)


def test_more_memory_than_a_slot_has_is_refused_and_a_closed_judge_says_so():
    with Judge(backend="landlock", workers=1, slot_memory_mb=512) as judge:
        with pytest.raises(ValueError, match="slot_memory_mb=1024"):
            judge.run("x", tests=TESTS, limits=Limits(memory_mb=512))
        assert judge.run("", tests=TESTS, limits=Limits(memory_mb=128)).verdict == "OK"
    judge.close()
    with pytest.raises(SandboxError, match="closed"):
        judge.run("", tests=TESTS)


def test_a_language_without_its_compiler_is_refused(monkeypatch):
    with Judge(backend="landlock", workers=1) as judge:
        monkeypatch.delitem(judge._pool.backend.tools, "c++")
        with pytest.raises(SandboxError, match=r"the landlock sandbox has no c\+\+"):
            judge.run("int main() {}", "c++", TESTS)


def test_unsafe_warns():
    with pytest.warns(RuntimeWarning, match="isolates nothing"):
        judge = Judge(backend="unsafe", workers=1)
    with judge:
        assert judge.run("print(input())", tests=[Test(b"a", b"a")]).verdict == "OK"
        assert judge.backend == "unsafe"
