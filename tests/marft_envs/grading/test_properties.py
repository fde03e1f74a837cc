"""Properties: reflexive, symmetric, never raises, the same in every process and thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from marft_envs.grading import boxed_answers, equivalent, extract, grade_math
from marft_envs.grading.answer_parser import read
from marft_envs.grading.extraction import METHODS
from marft_envs.grading.grade import decide, decide_bounded

PAIRS_FILE = Path(__file__).parent / "pairs.jsonl"
_PIECES = r"""
\frac \sqrt \pi \infty \left( \right) \cup \text{and} \{ \} { } ( ) [ ] ^ _ + - * / = < > , ; : ! | \% \$ 1 2 10
0.5 x y n e i f
sin \log ^\circ \le \in \mathbb{R} \pm \begin{pmatrix} \end{pmatrix} \\ & and cm \equiv \pmod \lfloor \rfloor
\boxed{ \overline{3} \binom 2:30 pm 3,000 _2 元 三 百 分之 半
"""
PIECES = _PIECES.split()
latex = st.lists(st.sampled_from([*PIECES, " "]), max_size=25).map("".join)


@st.composite
def expressions(draw, depth=3):
    """Well-formed expressions."""
    if depth == 0:
        return draw(st.sampled_from(["1", "2", "7", "x", "y", r"\pi", "0.5"]))
    left, right = draw(expressions(depth=depth - 1)), draw(expressions(depth=depth - 1))
    template = draw(
        st.sampled_from([r"\frac{%s}{%s}", "(%s)+(%s)", "(%s)-(%s)", "(%s)(%s)", r"\sqrt{%s}\cdot{%s}", "(%s)^2/{%s}"])
    )
    return template % (left, right)


@given(latex, latex)
def test_bounded_tiers_never_raise_and_are_symmetric(first, second):
    for language in ("en", "zh"):
        one = decide_bounded(first, second, language)
        other = decide_bounded(second, first, language)
        assert one.same == other.same


@given(st.text(max_size=60))
def test_any_text_is_equivalent_to_itself(text):
    assert equivalent(text, text) == bool(text.strip())


@given(st.text(max_size=200) | latex)
def test_extraction_and_grading_never_raise(text):
    boxed_answers(text)
    for language in ("en", "zh"):
        extract(text, language, METHODS)
        grade_math(text, "2", language, extraction=METHODS, use_symbolic=False)


@given(expressions(), expressions())
def test_sums_commute_and_shifts_do_not(first, second):
    assert decide(f"{first}+{second}", f"{second}+{first}", use_symbolic=False).same is not False
    assert not decide(first, f"{first}+1", use_symbolic=False).same


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**12))
def test_fractions_are_exact(above, below):
    assert equivalent(rf"\frac{{{above}}}{{{below}}}", f"{2 * above}/{2 * below}")
    assert not equivalent(f"{above}", f"{above + 1}")


def _verdicts() -> list[bool]:
    read.cache_clear()
    rows = [json.loads(line) for line in PAIRS_FILE.read_text("utf-8").split("\n") if line]
    return [bool(decide_bounded(row["gold"], row["answer"], row["language"]).same) for row in rows]


def test_eight_threads_agree_with_one():
    expected = _verdicts()
    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(lambda _: _verdicts(), range(16)))


def test_verdicts_do_not_depend_on_the_hash_seed():
    script = (
        "import json, sys; from marft_envs.grading.grade import decide_bounded as d;"
        "rows = [json.loads(line) for line in open(sys.argv[1], encoding='utf-8')];"
        "print([d(r['gold'], r['answer'], r['language']).same for r in rows])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script, str(PAIRS_FILE)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
