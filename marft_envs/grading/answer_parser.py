"""Recursive-descent parser for whole answers: lists, relations, words."""

from __future__ import annotations

import re

from marft_envs.grading.atoms import variable
from marft_envs.grading.expression import Node, number
from marft_envs.grading.limits import NotReadableError
from marft_envs.grading.numerals import english_value
from marft_envs.grading.phrases import ANOTHER_NUMBER, CONDITION_WORDS, SEPARATORS, text_node
from marft_envs.grading.quantities import ratio, with_unit
from marft_envs.grading.scalar_parser import ScalarParser
from marft_envs.grading.set_literals import matrix
from marft_envs.grading.tokens import Token

_RELATIONS = frozenset({"=", "<", ">", "<=", ">=", "!=", "in", "notin", "approx", "equiv"})
_LEADING_WORDS = frozenset({"option", "choice", "answer", "approximately", "about", "exactly", "approx"})
_ANSWER_PHRASES = frozenset({"the final answer is", "the answer is", "answer is"})
_FUNCTION_HEAD = re.compile(r"[A-Za-z](?:_\{?\w{1,4}\}?)?(?:'{1,3}|\^\{?-1\}?)?\([A-Za-z](?:,[A-Za-z]){0,4}\)=")


def parse(tokens: tuple[Token, ...]) -> Node:
    """Parse tokens to the expression tree of an answer.

    Raises:
        NotReadableError: The tokens are not an answer of this grammar.
        LimitExceededError: Too many nodes or too deep.
    """
    if not tokens:
        raise NotReadableError("empty")
    parser = AnswerParser(tokens)
    label = parser.choice_label()
    tree = parser.listing()
    if label is not None:
        tree = parser.node("choice", label, tree)
    if parser.next.kind != "end":
        raise NotReadableError(f"unexpected {parser.next.text!r}")
    return tree


class AnswerParser(ScalarParser):
    """Parser for lists, relations and words around expressions."""

    def atom(self) -> Node:
        """Read an atom; a matrix may also be inside brackets and lists."""
        return matrix(self) if self.next.text == "begin" else super().atom()

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
        groups = [[self.element()]]
        separators = set()
        while self.next.text.lower() in SEPARATORS and self.next.kind in ("mark", "word"):
            while self.next.text.lower() in SEPARATORS:
                separator = self.next.text.lower()
                separators.add(separator)
                self.index += 1
            if self.next.text in (")", "]", "set}", "}", ""):
                break
            if self.next.text in CONDITION_WORDS:
                self.rest_of_element()
                break
            if separator == ";":
                groups.append([])
            groups[-1].append(self.element())
        if separators == {",", ";"}:
            return self.node("list", *[self.joined(group) for group in groups])
        return self.joined([item for group in groups for item in group], separators)

    def joined(self, items: list[Node], separators: set[str] | None = None) -> Node:
        """Return one element as itself, several as a list named "or" or "and" if that is the only separator.

        Elements that only give the domain of a variable, such as k ∈ Z, are dropped.
        """
        kept = [item for item in items if not _is_domain(item)] or items
        if len(kept) == 1:
            return kept[0]
        word = "".join(separators or ()) if separators in ({"or"}, {"and"}) else ""
        return self.node("list", *kept, name=word)

    def element(self) -> Node:
        """Read one element: words or a relation between expressions."""
        self.enter()
        node = self.words() if self.next.kind == "word" else self.relation()
        self.depth -= 1
        return node

    def words(self) -> Node:
        """Read an element that begins with a word: a number in words, a name before a value, or a text."""
        self.introduction()
        if self.next.kind != "word":
            return self.element()
        return self.amount_in_words() or self.text()

    def introduction(self) -> None:
        """Skip words before the answer: "approximately", "the answer is", 一共买了."""
        chinese = not self.next.text.isascii() and self.peek(1).kind in ("number", "repeating")
        if chinese and ANOTHER_NUMBER.search(self.next.text):
            return  # "not 7" and "more than 7" differ from 7
        leading = self.next.text.lower() in _LEADING_WORDS and self.peek(1).kind not in ("word", "end")
        if chinese or leading:
            self.index += 1
            self.take(":")
        else:
            self.answer_phrase()

    def amount_in_words(self) -> Node | None:
        """Read "three" or "twenty-five cents"; return None for longer texts, which are prose."""
        start = self.index
        value = self.english_number()
        rest = [token for token in self.tokens[self.index :] if token.kind != "end"]
        if value is not None and len(rest) <= 2 and all(token.kind == "word" for token in rest):
            return with_unit(self, number(value))
        self.index = start
        return None

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
            return variable(self, Token("variable", first))
        return text_node(text)

    def answer_phrase(self) -> None:
        """Skip "the (final) answer is" before the answer."""
        for length in (4, 3, 2):
            words = " ".join(token.text.lower() for token in self.tokens[self.index : self.index + length])
            if words in _ANSWER_PHRASES and self.peek(length).kind != "end":
                self.index += length
                self.take(":")
                return

    def english_number(self) -> int | None:
        """Read one or two number words."""
        first, second = self.next, self.peek(1)
        offset = 2 if second.text == "-" else 1
        second = self.peek(offset)
        if second.kind == "word":
            value = english_value(f"{first.text} {second.text}")
            if value is not None:
                self.index += offset + 1
                return value
        value = english_value(first.text)
        self.index += value is not None
        return value

    def rest_of_element(self, stop: tuple[str, ...] = ()) -> str:
        """Skip to the next separator, closing bracket or `stop` token; return the skipped tokens as text."""
        start = self.index
        depth = 0
        while self.next.kind != "end":
            text = self.next.text
            depth += text in ("(", "[", "{", "{set")
            depth -= text in (")", "]", "}", "set}")
            if depth < 0 or (depth == 0 and (text.lower() in SEPARATORS or text in stop)):
                break
            self.index += 1
        return " ".join(token.text for token in self.tokens[start : self.index])

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
                parts.extend(self.modulus())
        if not operators:
            return parts[0]
        if self.next.kind == "word" and self.next.text.lower() in CONDITION_WORDS:
            self.rest_of_element()
        return self.node("rel", *parts, name=" ".join(operators))

    def modulus(self) -> list[Node]:
        r"""Read ``\pmod{5}`` or ``(mod 5)``."""
        if self.take("pmod"):
            return [self.argument()]
        bracket = self.take("(")
        if self.take("mod") or (self.next.text == "mod" and self.next.kind in ("letters", "word")):
            self.index += self.next.text == "mod"
            modulus = self.sum()
            if bracket:
                self.expect(")")
            return [modulus]
        return []

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

    def set_operation(self) -> Node:
        r"""Read sets joined by ∪, ∩ and ∖."""
        left = ratio(self)
        while self.next.kind == "mark" and self.next.text in ("cup", "cap", "setminus"):
            kind = self.next.text
            self.index += 1
            left = self.node(kind, left, ratio(self))
        return left


def _is_domain(item: Node) -> bool:
    """True if an element only gives the domain of a variable: k ∈ Z."""
    return item.kind == "rel" and item.name == "in" and item.args[1].kind == "numbers"
