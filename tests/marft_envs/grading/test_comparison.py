"""Closed form: equivalence of relations, structures and times of day."""

from __future__ import annotations

import pytest

from marft_envs.grading.grade import decide_bounded


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (r"x\equiv 1\pmod{5}", r"x\equiv 6\pmod{5}", True),
        (r"x\equiv 1\pmod{5}", r"x\equiv 6 (mod 5)", True),
        (r"x\equiv 1\pmod{5}", r"x\equiv 2\pmod{5}", False),
        (r"x\equiv 1\pmod{5}", r"x\equiv 1\pmod{6}", False),
        (r"x\equiv 1\pmod{\pi}", r"x\equiv 2\pmod{\pi}", None),  # congruences are of rational numbers
        (r"x\equiv \sqrt{2}\pmod{5}", r"x\equiv 2\pmod{5}", None),
        ("x+y<1", "2x+2y<2", True),
        ("x+y<1", "1>x+y", True),
        ("x+y<1", "x+y>1", False),
        ("x+y<1", r"x+y\le 1", False),
        ("y=2x+1", "2x-y+1=0", True),
        ("y=2x+1", "y=2z+1", False),
        (r"\frac{22}{7}\approx 3.14", "3.14", True),
        (r"\frac{22}{7}\approx 3.14", r"\frac{22}{7}", True),
        (r"\frac{22}{7}\approx 4", "4", False),
        (r"\frac{22}{7}\approx 3.14", r"\frac{22}{7}\approx 3.143", True),
        ("f(0)=3", "3=f(0)", True),
        ("3:45 pm", "15:45", True),
        ("3:45 pm", "3:45", True),
        ("3:45 pm", "3:45 am", False),
        ("12:30 am", "0:30", True),
        ("5:05 pm", "1", False),
        (r"-7\%", "-7", True),
        (r"-7\%", "-0.07", True),
        (r"-7\%", r"-7\text{ percent}", True),
        (r"-7\%", r"7\%", False),
        (r"-7\%", "7", False),
        ("2:4", "0.5", True),
        ("15:45", "3:45", False),
        ("2:4:6", "1:2:3", True),
        ("2:4:6", "1:2:4", False),
        (r"\pm 3", "3, -3", True),
        (r"1\pm\sqrt{2}", r"\{1-\sqrt{2}, 1+\sqrt{2}\}", True),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)", True),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "((1,2),(3,4))", True),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "(1,2,3,4)", False),
        ("x=1, y=2", "1, 2", True),
        ("x=1, y=2", "2, 1", False),
        (r"(C)\ 12", "12", True),
        (r"(C)\ 12", "C", True),
    ],
)
def test_structures(first, second, same):
    assert decide_bounded(first, second).same is same
    assert decide_bounded(second, first).same is same
