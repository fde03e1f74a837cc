"""Closed form: characters and tokens of answers."""

from __future__ import annotations

import pytest

from marft_envs.grading.lexer import plain_characters, tokenize


def test_characters():
    assert plain_characters("ｘ²−½") == "x^{2}- 1/2 "
    assert plain_characters("x₁⁻¹⁰") == "x_{1}^{-10}"
    assert plain_characters("25℃") == r"25^\circ C"  # a symbol that NFKC itself produces


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (r"\left( 1,\, 234 \right]", "( 1 , 234 ]"),
        ("1,234", "1234"),
        ("(1,234)", "( 1 , 234 )"),  # inside brackets a comma separates
        (r"1\,234", "1234"),
        (r"\dfrac{1}{2}", "frac { 1 } { 2 }"),
        (r"5\text{ cm}^2", "5 cm ^ 2"),
        (r"5\mathrm{i}", "5 i"),
        (r"a \leqslant b ** 2", "a <= b ^ 2"),
        (r"\color{red}7;", "7"),
        ("5th", "5"),
        ("10 a. m.", "10 am"),
        (r"\begin{cases} 1 \\[2pt] 2", "begin { cases } 1 newline 2"),
    ],
)
def test_tokens(text, tokens):
    assert " ".join(token.text for token in tokenize(text)) == tokens


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("xy", ["letters"]),
        ("area", ["word"]),
        ("x", ["variable"]),
        ("sin x", ["function", "variable"]),
        ("5 min", ["number", "word"]),  # after a value it is a unit
        ("min(5)", ["function", "mark", "number", "mark"]),
        (r"5\text{m}", ["number", "word"]),
        (r"\text{m}", ["variable"]),
        ("1A_{16}", ["based"]),
        (r"0.\overline{3}", ["repeating"]),
    ],
)
def test_kinds_of_tokens(text, kinds):
    assert [token.kind for token in tokenize(text)] == kinds
