"""Extraction of final answers from responses and worked solutions: the last balanced box, a phrase or a number.

Phrases and numbers are tried only on request. All scans are linear in the text and read only its last
`TAIL_CHARS` characters.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

Language = Literal["en", "zh"]
Method = Literal["boxed", "answer", "number"]

METHODS: tuple[Method, ...] = ("boxed", "answer", "number")
TAIL_CHARS = 65_536  # final answers are at the end; bounds the work on megabyte responses
BARE_BOX_CHARS = 200  # `\boxed 9$`: without braces the answer ends at the next delimiter

_BOX_OR_BRACE = re.compile(r"\\{1,3}(?:boxed|fbox)(?![A-Za-z])[ \t\n]?|\\[\s\S]|[{}]")
_BARE = re.compile(r"[^$\n{}\\]{1,200}")
_MATH_SEGMENT = re.compile(r"\$\$?([^$\n]{1,2000})\$|\\\(((?:[^\\\n]|\\(?!\))){1,2000})\\\)")
_PHRASES: dict[str, re.Pattern[str]] = {
    "en": re.compile(r"(?:\banswer(?:\*\*)?(?: is|\s{0,3}[:=])(?:\*\*)?:?|####)", re.IGNORECASE),
    "zh": re.compile(r"(?:答案(?:\*\*)?(?:是|为|[:：])(?:\*\*)?[:：]?|答[:：]|####)"),
}
_SENTENCE_END = re.compile(r"\n|。|[.!](?=\s|$|\*)")
_EDGE = " \t\r\n*:：=。.,，;；!！"
_NUMBER_EN = re.compile(
    r"(?:(?<![A-Za-z\d.])-)?\$?(?:\\[dt]?frac\{\d{1,40}\}\{\d{1,40}\}"
    r"|\d{1,100}(?:,\d{3}){0,30}(?:\.\d{1,100})?(?:/\d{1,40})?(?:\\?%)?)"
)
_OUT_OF = re.compile(r"\bout of (?:(?:the|all|a total of) )?\$?\d{1,100}(?:,\d{3}){0,30}(?:\.\d{1,100})?")
_ZH_DIGIT = "零〇一二两三四五六七八九十百千万亿"
_NUMBER_ZH = re.compile(
    r"(?<!第)(?:负|(?<![A-Za-z\d.])-)?(?:"
    rf"\d{{1,40}}又\d{{1,40}}(?:分之\d{{1,40}}|/\d{{1,40}})|百分之[{_ZH_DIGIT}\d点.]{{1,40}}"
    rf"|[{_ZH_DIGIT}]{{1,40}}又[{_ZH_DIGIT}]{{1,40}}分之[{_ZH_DIGIT}]{{1,40}}"
    rf"|[{_ZH_DIGIT}\d]{{1,40}}分之[{_ZH_DIGIT}\d]{{1,40}}"
    r"|\\[dt]?frac\{\d{1,40}\}\{\d{1,40}\}"
    r"|\d{1,100}(?:,\d{3}){0,30}(?:\.\d{1,100})?(?:/\d{1,40})?(?:\\?[%％]|[万亿](?![\w]))?"
    rf"|(?!一[共样起些定般直边])[{_ZH_DIGIT}]{{1,40}}(?:点[{_ZH_DIGIT}]{{1,40}})?(?:(?<!千)|(?![克米瓦])))"
)
_ELEMENT_MARK = re.compile(
    r"\\?[{}()\[\]]|\\(?:left|right)?\\?[{}()\[\].|]|[,;]|\\text\s?\{\s?(?:and|or),?\s?\}|\b(?:and|or)\b"
)


def boxed_answers(text: str) -> list[str]:
    r"""Return the contents of all balanced ``\boxed{}`` and ``\fbox{}``, outermost only, in order.

    Args:
        text: Any text, such as a response or the `solution` column of MATH.

    Returns:
        The stripped contents; empty boxes are kept as empty strings.

    Examples:
        >>> boxed_answers(r"so \boxed{\frac{1}{2}} or \boxed{2}, not \boxed{3")
        ['\\frac{1}{2}', '2']
    """
    text = text[-TAIL_CHARS:]
    if "\\boxed" not in text and "\\fbox" not in text:
        return []
    answers = []
    box_end = -1
    for start, end in sorted(_box_spans(text)):
        if start > box_end:  # boxes inside a box are part of its answer
            answers.append(text[start:end].strip())
            box_end = end
    return answers


def last_boxed(solution: str) -> str | None:
    r"""Return the last box of a worked solution, the gold answer of most MATH problems.

    If several boxes differ (`differing_boxes`), the last may be incomplete: check such rows by hand.

    Examples:
        >>> last_boxed(r"First $\boxed{3}$, so \boxed{\frac{1}{2}}.")
        '\\frac{1}{2}'
    """
    boxes = boxed_answers(solution)
    return boxes[-1] if boxes else None


def differing_boxes(solution: str) -> list[str]:
    """Return the distinct boxes of a solution in order; a single box leaves no doubt about the gold answer."""
    return list(dict.fromkeys(box for box in boxed_answers(solution) if box))


def split_elements(text: str) -> list[str]:
    r"""Split an answer at the commas, semicolons, "and" and "or" outside its brackets.

    Examples:
        >>> split_elements(r"(1,2), (3,4) \text{ and } \{5,6\}")
        ['(1,2)', '(3,4)', '\\{5,6\\}']
    """
    parts: list[str] = []
    depth = start = 0
    for mark in _ELEMENT_MARK.finditer(text):
        symbol = mark.group()
        if symbol[-1] in "([{" and len(symbol) <= 2:
            depth += 1
        elif symbol[-1] in ")]}" and len(symbol) <= 2:
            depth -= 1
        elif depth <= 0 and (symbol in (",", ";") or symbol[-1].isalpha() or symbol.startswith(r"\text")):
            parts.append(text[start : mark.start()])
            start = mark.end()
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def extract(response: str, language: Language = "en", extraction: Sequence[Method] = ("boxed",)) -> str | None:
    r"""Return the final answer of a response, or None if there is none.

    Args:
        response: The whole response; only the text after the last ``</think>`` is read.
        language: Selects the phrases that introduce an answer; "zh" also reads Chinese numerals as numbers.
        extraction: Methods to try, in order: "boxed" (last balanced box), "answer" (after the last
            "Answer:", "the answer is", "####", 答案是, 答：), "number" (last number of the text).

    Raises:
        ValueError: Unknown language or method.
    """
    check_methods(language, extraction)
    text = final_part(response)
    for method in extraction:
        found = _FINDERS[method](text, language)
        if found:
            return found
    return None


def check_methods(language: str, extraction: Iterable[str]) -> None:
    """Refuse an unknown language or extraction method.

    Raises:
        ValueError: Unknown language or method; the message lists the possible ones.
    """
    if language not in _PHRASES:
        raise ValueError(f"language: found {language!r}, wanted one of {sorted(_PHRASES)}")
    unknown = [method for method in extraction if method not in METHODS]
    if unknown:
        raise ValueError(f"extraction: found {unknown}, wanted some of {list(METHODS)}")


def final_part(response: str) -> str:
    """Return the text after the last ``</think>``, at most its last `TAIL_CHARS` characters."""
    return response.rpartition("</think>")[2][-TAIL_CHARS:]


def _box_spans(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of the content of each closed box; one pass with a stack of open braces."""
    spans: list[tuple[int, int]] = []
    stack: list[int] = []  # content start for the brace of a box, -1 for any other brace
    box_end = -1
    for match in _BOX_OR_BRACE.finditer(text):
        mark = match.group()
        if mark == "{":
            stack.append(match.end() if match.start() == box_end else -1)
        elif mark == "}":
            start = stack.pop() if stack else -1
            if start >= 0:
                spans.append((start, match.start()))
        elif len(mark) > 2:  # a box; other commands are escaped braces and the like
            box_end = match.end()
            if not text.startswith("{", box_end):
                bare = _BARE.match(text, box_end)
                if bare:
                    spans.append((box_end, min(bare.end(), box_end + BARE_BOX_CHARS)))
    return spans


def _after_phrase(text: str, language: str) -> str | None:
    """Return the text after the last answer phrase: its formula, its number or its words."""
    last = deque(_PHRASES[language].finditer(text), maxlen=1)
    if not last:
        return None
    rest = text[last[0].end() :].lstrip(_EDGE)[:2_000]
    sentence_end = _SENTENCE_END.search(rest)
    if sentence_end:
        rest = rest[: sentence_end.start()]
    boxes = boxed_answers(rest)
    if boxes:
        return boxes[-1]
    formula = _MATH_SEGMENT.search(rest)
    if formula:
        return (formula.group(1) or formula.group(2)).strip()
    phrase = rest.strip(_EDGE + "$")
    num_chinese = sum("\u4e00" <= char <= "\u9fff" for char in phrase)
    is_prose = num_chinese > 3 or len(phrase.split()) > 3
    number = _last_number(phrase, language) if is_prose else None
    return number or phrase or None


def _last_number(text: str, language: str) -> str | None:
    if "out of" in text:
        text = _OUT_OF.sub("", text)  # the answer of "3 apples out of 5" is 3
    pattern = _NUMBER_ZH if language == "zh" else _NUMBER_EN
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0].group().strip() if last else None


_FINDERS: dict[str, Callable[[str, str], str | None]] = {
    "boxed": lambda text, language: last_boxed(text),
    "answer": _after_phrase,
    "number": _last_number,
}
