"""Nothing that a terminal obeys is left of a text, and what it shows stays as it is."""

import json
import tomllib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marft_common.visible_text import visible

ANYTHING = st.text(st.characters(exclude_categories=[]), max_size=60)
ORDINARY = [
    "",
    "a b",
    "Zürich, naïve",
    "答案是 5。　全角",
    "1 < 2 & [bold]x[/bold]",
    "مرحبا שלום",
    "🧨 ½ ≤ \\frac",
    "a\nb\tc",
]


@given(ANYTHING)
def test_nothing_is_left_that_a_terminal_obeys(text):
    shown = visible(text)
    kinds = {unicodedata.category(character) for character in shown.replace("\n", "").replace("\t", "")}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    bidi = {unicodedata.bidirectional(character) for character in shown}
    assert not bidi & {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert visible(shown) == shown
    assert not set("\u200b\u200c\u200d\u200e\u200f\u061c\u2060\ufeff\xad\U000e0041") & set(shown)
    shown.encode()


@given(ANYTHING)
def test_one_line_is_one_line(text):
    assert len(visible(text, lines=False).splitlines()) <= 1
    assert "\t" not in visible(text, lines=False)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", "\\u001b]0;owned\\u0007"),
        ("\x9b31m", "\\u009b31m"),
        ("50\r100\r\nnext", "50\\u000d100\nnext"),
        ("ab\u202edc", "ab\\u202edc"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
def test_escapes_name_the_character(text, shown):
    assert visible(text) == shown


def test_printed_documents_stay_documents():
    text = "a\u202e\x9b\x7fb"
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text
    assert tomllib.loads(visible('x = "a\u202e\x9bb"'))["x"] == "a\u202e\x9bb"
