"""Parser for whole answers: `read` turns the text of an answer into tokens and an expression tree, with a cache.

An answer is a list of elements. An element is a text, or a relation between sets, ratios, quantities or expressions.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from marft_envs.grading.expression import Node, is_scalar, number
from marft_envs.grading.expression_parser import ExpressionParser
from marft_envs.grading.extraction import boxed_answers
from marft_envs.grading.lexer import Token, plain_characters, tokenize
from marft_envs.grading.limits import MAX_ANSWER_CHARS, MAX_NESTED_BOXES, LimitExceededError, NotReadableError
from marft_envs.grading.number_words import chinese_to_digits, english_value
from marft_envs.grading.units import combined, unit
from marft_envs.grading.words import negates

_RELATIONS = frozenset({"=", "<", ">", "<=", ">=", "!=", "in", "notin", "approx", "equiv", "to", "cong", "sim"})
_BETWEEN_NUMBERS = {"cong": "=", "sim": "approx"}
_SEPARATORS = frozenset({",", ";", "and", "or", "newline", "和", "或", "或者", "与", "及"})
_NUMBER_SETS = frozenset("RZNQC")
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_MONEY = frozenset({"dollar", "euro", "pound", "yen"})
_PERCENT = re.compile(r"(?:percent|pct|per cent|percentage)(?= |$)", re.IGNORECASE)

_LEADING_WORDS = frozenset({"option", "choice", "answer", "approximately", "about", "exactly", "approx"})
_ANSWER_PHRASES = frozenset({"the final answer is", "the answer is", "answer is"})
_CONDITION_WORDS_ZH = frozenset({"当", "若", "如果", "如"})
_CONJUNCTIONS = frozenset({"and", "or", ",", "且", "或"})
_CONDITION_FILLERS = frozenset({"that", "all", "any", "every", "each", "some"})
_ENDS_OF_CELLS = frozenset({"&", "newline", "end", "set}", ")", "]", "}", ""})
_ELSE = frozenset({"otherwise", "else", "其他", "其它", "其余", "否则"})
_CONDITION_WORDS = frozenset({"where", "for", "if", "when", "with", "given", "such", "because", "since"})
_NOTHING = re.compile(
    r"(?:there (?:is|are|exists?) )?(?:no(?: (?:real|integer|such|valid|possible|positive)){0,2}"
    r"(?: (?:solutions?|roots?|answers?|values?|integers?|numbers?|functions?|pairs?|triples?|[a-z]))"
    r"|none|null|null set|empty|empty set)(?: exists?)?|无解|空集"
)
_UNDEFINED = frozenset({"undefined", "dne", "does not exist", "doesnotexist", "indeterminate"})
_FUNCTION_HEAD = re.compile(r"[A-Za-z](?:_\{?\w{1,4}\}?)?(?:'{1,3}|\^\{?-1\}?)?\([A-Za-z](?:[,|][A-Za-z]){0,4}\)=")
_BEFORE_BOX = re.compile(r"(?:[^0-9]{0,300}(?:\bis|\bare|是|为)\s?[:：]?)?\s?(?:\\[\[(])?")
_AROUND_BOX = re.compile(r"[\s${}]|\\[\])]|[.。]$")
_PLAIN_NUMBER = re.compile(r"(-?)([0-9]{1,40}(?:\.[0-9]{1,40})?)")


class Reading(NamedTuple):
    """Result of parsing an answer.

    Attributes:
        tokens: Canonical tokens; empty for a blank text or one beyond the length bound.
        tree: Expression tree; None if the text is not in the grammar or beyond a bound.
        vectors: Names in the tree that are marked as vectors.
        problem: Reason for a missing tree; empty if there is a tree.
        too_large: True if a bound of `limits` was exceeded.
    """

    tokens: tuple[Token, ...]
    tree: Node | None
    problem: str = ""
    too_large: bool = False
    vectors: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def read(text: str, language: str = "en") -> Reading:
    """Parse an answer; the result is cached, and problems are returned instead of raised."""
    if len(text) > MAX_ANSWER_CHARS:
        return Reading((), None, f"longer than {MAX_ANSWER_CHARS} characters", True)
    plain_number = _PLAIN_NUMBER.fullmatch(text)
    if plain_number:  # most answers: the same reading as below, without tokenizer and parser
        sign, literal = plain_number.groups()
        tree = number(int(literal)) if literal.isdigit() else number(Fraction(literal), literal)
        token = Token("number", literal)
        if sign:
            return Reading((Token("mark", "-"), token), Node("neg", (tree,)))
        return Reading((token,), tree)
    if "boxed" in text:
        text = _unboxed(text)
    tokens: tuple[Token, ...] = ()
    try:
        if language == "zh":
            text = chinese_to_digits(text)
        text = plain_characters(text)
        if len(text) > MAX_ANSWER_CHARS:  # 40 times 亿 are 320 digits
            raise LimitExceededError(f"longer than {MAX_ANSWER_CHARS} characters when written out")
        tokens = tokenize(text)
        parser = AnswerParser(tokens)
        return Reading(tokens, parser.whole(), vectors=frozenset(parser.vectors))
    except LimitExceededError as error:
        return Reading(tokens, None, str(error), True)
    except NotReadableError as error:
        return Reading(tokens, None, str(error))


def _unboxed(text: str) -> str:
    r"""Return the content of the box in ``\boxed{7}`` or "so the answer is $\boxed{7}$".

    A box beside anything else stays unreadable.
    """
    for _ in range(MAX_NESTED_BOXES):
        boxes = boxed_answers(text)
        if len(boxes) != 1:
            break
        before, _, behind = text.partition("\\boxed")
        before = " ".join(before.replace("$", " ").split())
        is_sentence = _BEFORE_BOX.fullmatch(before) and not negates(before)
        if not is_sentence or _AROUND_BOX.sub("", behind) != _AROUND_BOX.sub("", boxes[0]):
            break
        text = boxes[0]
    return text


class AnswerParser(ExpressionParser):
    """Parser for the lists, relations, units and words around expressions."""

    def whole(self) -> Node:
        """Read all tokens; raise `NotReadableError` if one is left over."""
        if not self.tokens[0].text:
            raise NotReadableError("empty")
        label = self.choice_label()
        tree = self.listing()
        if label is not None:
            tree = self.node("choice", label, tree)
        if self.next.kind != "end":
            raise NotReadableError(f"unexpected {self.next.text!r}")
        return tree

    # ------------------------------------------------------------------ lists

    def choice_label(self) -> Node | None:
        """Read the label of ``(C) 12`` if a value follows."""
        opened, letter, closed, behind = (self.peek(offset) for offset in range(4))
        if (opened.text, closed.text) != ("(", ")") or letter.kind != "variable" or letter.text not in "ABCDE":
            return None
        if behind.kind not in ("number", "word") and behind.text not in ("frac", "sqrt", "dollar"):
            return None
        self.index += 3
        return Node("var", name=letter.text)

    def listing(self) -> Node:
        """Read elements separated by commas, semicolons, "and" or "or"."""
        groups = [[self.element()]]  # semicolons separate groups
        separators = set()
        while self.next.text.lower() in _SEPARATORS and self.next.kind in ("mark", "word"):
            while self.next.text.lower() in _SEPARATORS:
                separator = self.next.text.lower()
                separators.add(separator)
                self.index += 1
            if self.next.text in _ENDS_OF_CELLS:
                break
            if self.at_condition():
                return self.given(self.joined([item for group in groups for item in group]))
            if separator == ";":
                groups.append([])
            groups[-1].append(self.element())
        if separators == {",", ";"}:  # (1, 2; 3, 4) is a list of lists
            return self.node("list", *[self.joined(group) for group in groups])
        items = [item for group in groups for item in group]
        word = separators.pop() if len(separators) == 1 else ""
        return self.joined(items, word if word in ("or", "and") else "")

    def joined(self, items: list[Node], word: str = "") -> Node:
        """Return one element as itself, several as a list with the name `word`.

        Elements that only give the domain of a variable, such as k ∈ Z, are dropped.
        """
        kept = [item for item in items if not _is_domain(item)] or items
        return kept[0] if len(kept) == 1 else self.node("list", *kept, name=word)

    def element(self) -> Node:
        """Read one element: words or a relation between expressions."""
        self.enter()
        node = self.words() if self.next.kind == "word" else self.relation()
        if self.at_condition():
            node = self.given(node)
        self.depth -= 1
        return node

    # ------------------------------------------------------------------ conditions

    def at_condition(self) -> bool:
        """True if a word such as "if" or "where" follows."""
        return self.next.kind == "word" and self.next.text.lower() in _CONDITION_WORDS

    def given(self, node: Node) -> Node:
        """Read the condition behind an answer: "x = 2k, where k is an integer"."""
        self.index += 1
        while self.next.text.lower() in _CONDITION_FILLERS:
            self.index += 1
        return self.node("given", node, self.condition())

    def condition(self) -> Node:
        """Read a condition as an element; one that is not in the grammar stays a text."""
        start = self.index
        try:
            node = self.element()
            if self.next.text in _ENDS_OF_CELLS or self.next.text.lower() in _SEPARATORS:
                return node
        except NotReadableError:
            pass
        self.index = start
        return _text_node(self.rest_of_element(stop=("newline", "end", "&")))

    def rest_of_element(self, stop: tuple[str, ...] = ()) -> str:
        """Skip to the next separator, closing bracket or `stop` token; return the skipped tokens as text."""
        start = self.index
        depth = 0
        while self.next.kind != "end":
            text = self.next.text
            if text in ("(", "[", "{", "{set"):
                depth += 1
            elif text in (")", "]", "}", "set}"):
                depth -= 1
            if depth < 0 or (depth == 0 and (text.lower() in _SEPARATORS or text in stop)):
                break
            self.index += 1
        return " ".join(token.text for token in self.tokens[start : self.index])

    # ------------------------------------------------------------------ words

    def words(self) -> Node:
        """Read an element that begins with a word: a number in words, a name before a value, or a text."""
        if not self.next.text.isascii() and self.peek(1).kind in ("number", "repeating"):
            return self.behind_words()
        self.skip_introduction()
        if self.next.kind != "word":
            return self.element()
        # "three" or "twenty-five cents"; with more words behind the number it is prose
        start = self.index
        value = self.english_number()
        rest = [token.kind for token in self.tokens[self.index :] if token.kind != "end"]
        if value is not None and rest in ([], ["word"], ["word", "word"]):
            return self.with_unit(number(value))
        self.index = start
        return self.text()

    def behind_words(self) -> Node:
        """Read Chinese words and the number behind them: 一共买了18包, 鸡23只, 上涨5%."""
        name = f"{self.take_any().text} #"
        node = self.element()
        if is_scalar(node):
            return self.node("quantity", node, name=name)
        if not unit(name).words.is_neutral:
            raise NotReadableError(f"words before a structure: {name}")
        return node

    def skip_introduction(self) -> None:
        """Skip words before the answer: "approximately", "the answer is"."""
        if self.next.text.lower() in _LEADING_WORDS and self.peek(1).kind not in ("word", "end"):
            self.index += 1
            self.take(":")
            return
        for length in (4, 3, 2):
            phrase = " ".join(token.text.lower() for token in self.tokens[self.index : self.index + length])
            if phrase in _ANSWER_PHRASES and self.peek(length).kind != "end":
                self.index += length
                self.take(":")
                return

    def english_number(self) -> int | None:
        """Read one or two number words."""
        first = self.next.text
        offset = 2 if self.peek(1).text == "-" else 1
        second = self.peek(offset)
        if second.kind == "word":
            value = english_value(f"{first} {second.text}")
            if value is not None:
                self.index += offset + 1
                return value
        value = english_value(first)
        if value is not None:
            self.index += 1
        return value

    def text(self) -> Node:
        """Read words, or a name in words followed by its value."""
        first = self.next.text
        text = self.rest_of_element(stop=("=", ":"))
        if not text:
            raise NotReadableError(f"unexpected {first!r}")
        if self.next.text in ("=", ":") and self.peek(1).kind != "end":
            self.index += 1
            return self.node("rel", Node("text", name=text), self.set_operation(), name="=")
        if len(first) == 1 and text == first:
            return self.variable(Token("variable", first))
        return _text_node(text)

    # ------------------------------------------------------------------ relations

    def relation(self) -> Node:
        """Read expressions joined by relation signs such as =, <, ≤ and ∈."""
        parts = [self.function_head() or self.set_operation()]
        operators: list[str] = []
        while self.next.kind == "mark" and self.next.text in _RELATIONS:
            operators.append(self.next.text)
            self.index += 1
            if self.next.text == "=" and operators[-1] in ("<", ">"):
                operators[-1] += "="
                self.index += 1
            parts.append(self.set_operation())
            if operators[-1] == "equiv":
                modulus = self.modulus()
                if modulus is not None:
                    parts.append(modulus)
        if not operators:
            return parts[0]
        if operators[0] in _BETWEEN_NUMBERS and not all(part.name.startswith("△") for part in parts):
            operators = [_BETWEEN_NUMBERS.get(operator, operator) for operator in operators]
        return self.node("rel", *parts, name=" ".join(operators))

    def function_head(self) -> Node | None:
        """Read ``f(x)`` before an equals sign: the name of a function, not a product."""
        if self.next.kind != "variable":
            return None
        text = "".join(token.text for token in self.tokens[self.index : self.index + 16])
        match = _FUNCTION_HEAD.match(text)
        if match is None:
            return None
        head = match.group()[:-1]
        read = ""
        while read != head:
            read += self.next.text
            self.index += 1
        return self.node("apply", name=head)

    def modulus(self) -> Node | None:
        r"""Read ``\pmod{5}`` or ``(mod 5)``; the word mod is a command or three letters."""
        if self.take("pmod"):
            return self.argument()
        has_bracket = self.take("(")
        is_command = self.take("mod")
        if self.next.text == "mod":
            self.index += 1
        elif not is_command:
            return None
        modulus = self.sum()
        if has_bracket:
            self.expect(")")
        return modulus

    # ------------------------------------------------------------------ sets and matrices

    def set_operation(self) -> Node:
        r"""Read sets joined by ∪, ∩ and ∖."""
        left = self.ratio()
        while self.next.kind == "mark" and self.next.text in ("cup", "cap", "setminus"):
            kind = self.next.text
            self.index += 1
            left = self.node(kind, left, self.ratio())
        return left

    def special_set(self) -> Node | None:
        r"""Read ``\emptyset``, ``\mathbb{R}``, ``\mathbb{R}^2``, ``\mathbb{R} - \{0\}`` or an ellipsis."""
        if self.take("emptyset"):
            return Node("emptyset")
        if self.take("..."):
            return Node("text", name="...")
        if self.next.text != "mathbb":
            return None
        self.index += 1
        has_braces = self.take("{")
        letter = self.take_any().text
        if has_braces:
            self.expect("}")
        if letter not in _NUMBER_SETS:
            raise NotReadableError(f"unknown set {letter!r}")
        node = self.node("numbers", name=letter)
        if self.take("^"):
            node = self.node("numbers", name=letter + "^" + self.index_text())
        if self.next.text == "-":
            self.index += 1
            return self.node("setminus", node, self.sum())
        return node

    def atom(self) -> Node:
        """Read an atom, which may be a matrix."""
        text = self.next.text
        is_matrix = text == "begin" or (text == "{set" and self.peek(1).text == "begin")
        return self.matrix() if is_matrix else super().atom()

    def matrix(self) -> Node:
        r"""Read ``\begin{pmatrix} ... \end{pmatrix}``, a determinant or a system of equations."""
        has_brace = self.take("{set")  # \left\{ \begin{array} ... \right.
        self.index += 1
        name = self.index_text()
        if "matrix" not in name and name not in ("array", "cases", "dcases", "rcases", "aligned"):
            raise NotReadableError(f"unknown environment {name!r}")
        is_system = has_brace or name in ("cases", "dcases", "rcases", "aligned")
        if name == "array":
            self.index_text()  # the alignment of its columns
        self.enter()
        rows: list[Node] = []
        cells: list[Node] = []
        while not self.take("end"):
            if self.take("newline"):
                rows.append(self.node("row", *cells))
                cells = []
            elif not self.take("&"):
                cells.append(self.case_cell(is_condition=bool(cells)) if is_system else self.element())
                if self.next.text not in ("&", "newline", "end"):
                    raise NotReadableError(f"expected the end of a cell, found {self.next.text!r}")
        if cells:
            rows.append(self.node("row", *cells))
        self.index_text()
        self.depth -= 1
        if is_system:
            if all(len(row.args) == 1 for row in rows):
                return self.joined([row.args[0] for row in rows])
            return self.node("cases", *rows)
        if name.lower() == "vmatrix":
            return self.node("func", *rows, name="det")
        return self.node("matrix", *rows)

    def case_cell(self, is_condition: bool) -> Node:
        """Read the value or the condition of a case, with a comma behind it."""
        if not is_condition:
            cell = self.relation()
        elif self.next.text.lower() in _ELSE:
            self.index += 1
            cell = Node("text", name="otherwise")
        else:
            while self.at_condition() or self.next.text in _CONDITION_WORDS_ZH:
                self.index += 1
            parts, word = [self.condition()], ""
            while self.next.text.lower() in _CONJUNCTIONS and self.peek(1).text not in _ENDS_OF_CELLS:
                word = self.take_any().text.lower()
                parts.append(self.condition())
            cell = self.joined(parts, word)
        while self.take(",") or self.take(";") or self.take("."):
            pass
        return cell

    # ------------------------------------------------------------------ ratios, times of day, quantities

    def ratio(self) -> Node:
        """Read ``a:b`` or a time of day; the name of a ratio begins with "clock" if it may be a time."""
        start = self.index
        first = self.quantity()
        if self.next.text != ":" or self.next.kind != "mark":
            if first.kind == "quantity" and first.name.lower() in ("am", "pm"):  # 3 pm
                return self.node("ratio", first.args[0], number(0), name=f"clock {first.name.lower()}")
            return first
        parts = [first]
        while self.next.text == ":" and self.next.kind == "mark":
            self.index += 1
            parts.append(self.sum())
        hour, *others = self.tokens[start : self.index : 2]
        is_clock = hour.kind == "number" and len(hour.text) <= 2 and len(others) <= 2
        if not (is_clock and all(token.kind == "number" and len(token.text) == 2 for token in others)):
            return self.node("ratio", *parts)
        return self.node("ratio", *parts, name=f"clock {self.meridiem()}".strip())

    def meridiem(self) -> str:
        """Read the suffix am or pm, also in brackets; return "" if there is none."""
        has_brackets = self.next.text == "(" and self.peek(2).text == ")"
        token = self.peek(1) if has_brackets else self.next
        if token.kind in ("word", "letters") and token.text.lower() in ("am", "pm"):
            self.index += 3 if has_brackets else 1
            return token.text.lower()
        return ""

    def quantity(self) -> Node:
        """Read an expression with a currency before or a unit after it."""
        is_negative = self.next.text == "-" and self.peek(1).text in _MONEY
        if is_negative:
            self.index += 1
        money = ""
        if self.next.kind == "mark" and self.next.text in _MONEY:
            money = self.next.text
            self.index += 1
        amount = self.special_set() or self.sum()
        if is_negative:
            amount = self.node("neg", amount)
        if money:
            amount = self.scaled(amount)
            return self.node("quantity", amount, name=f"{money} {self.unit_phrase()}".strip())  # $5 per hour
        return self.with_unit(amount)

    def with_unit(self, amount: Node) -> Node:
        """Read the unit after an amount, and further amounts as in 2 h 30 min."""
        if not is_scalar(amount):
            return amount
        amount = self.scaled(amount)
        phrase = self.bracketed_unit() or self.unit_phrase()
        if not phrase:
            return amount
        percent = _PERCENT.match(phrase)
        if percent:
            amount, phrase = self.node("percent", amount), phrase[percent.end() :].strip()
            if not phrase:
                return amount
        result = self.node("quantity", amount, name=phrase)
        while self.next.kind == "number":
            other = self.with_unit(self.sum())
            scale = combined(phrase, other.name) if other.kind == "quantity" else None
            if scale is None:
                raise NotReadableError("two amounts side by side")
            added = self.node("add", result.args[0], self.node("mul", other.args[0], number(scale)))
            result = self.node("quantity", added, name=" ".join((phrase, *unit(other.name).words.nouns)))
        return result

    def scaled(self, amount: Node) -> Node:
        """Read a scale word such as "million" after an amount."""
        scale = _SCALES.get(self.next.text.lower()) if self.next.kind == "word" else None
        if scale is None:
            return amount
        self.index += 1
        return self.node("mul", amount, number(scale))

    def bracketed_unit(self) -> str:
        """Read a unit in brackets: 18 (cm)."""
        if self.next.text != "(" or self.peek(1).kind != "word":
            return ""
        start = self.index
        self.index += 1
        phrase = self.unit_phrase()
        if phrase and self.take(")"):
            return phrase
        self.index = start
        return ""

    def unit_phrase(self) -> str:
        """Read words (with / ^ and numbers between them) as one phrase; empty if there are none."""
        start = self.index
        while self.next.kind != "end" and self.continues_unit(is_first=self.index == start):
            self.index += 1
        return " ".join(token.text for token in self.tokens[start : self.index])

    def continues_unit(self, is_first: bool) -> bool:
        """True if the next token belongs to a unit; letters and powers do so only behind its first token."""
        (kind, text), ahead = self.next, self.peek(1)
        if kind == "word":
            return text.lower() not in _SEPARATORS and text.lower() not in _CONDITION_WORDS
        if kind == "mark" and text in _MONEY:
            return True
        if text in ("/", "*"):
            return ahead.kind == "word" or (ahead.kind == "variable" and not is_first)
        if is_first:
            return False
        if kind in ("variable", "letters") or text == "^":
            return True
        before = self.tokens[self.index - 1].text
        return (  # ^2, ^-2, ^{2} and ^{-2}
            (text in ("{", "-") and before == "^")
            or (text.isdecimal() and before in ("^", "{", "-"))
            or (text == "}" and self.tokens[self.index - 2].text in ("{", "-", "^"))
        )


def _is_domain(item: Node) -> bool:
    """True if an element only gives the domain of a variable: k ∈ Z."""
    return item.kind == "rel" and item.name == "in" and item.args[1].kind == "numbers"


def _text_node(text: str) -> Node:
    """Return the node of words in canonical form, without case, articles and quotes."""
    words = re.sub(r"[\"'.`{}]", "", text.lower())
    words = re.sub(r"^(?:the|a|an) ", "", " ".join(words.split()))
    if _NOTHING.fullmatch(words):
        return Node("emptyset")
    if words in ("all real numbers", "all reals", "real numbers", "reals"):
        return Node("numbers", name="R")
    if words in ("infinity", "infinite", "positive infinity"):
        return Node("const", name="oo")
    return Node("text", name="undefined" if words in _UNDEFINED else words)
