"""Recursive-descent parser for one expression: sums, products, powers."""

from __future__ import annotations

from marft_envs.grading.atoms import BY_KIND, BY_MARK
from marft_envs.grading.cursor import Cursor
from marft_envs.grading.expression import Node, number
from marft_envs.grading.limits import NotReadableError
from marft_envs.grading.literals import first_digit
from marft_envs.grading.tokens import Token

_STARTS = frozenset({"(", "{", "frac", "sqrt", "binom", "lfloor", "lceil", "oo"})  # begin an implicit factor
_BRACKETED_WORDS = frozenset({"am", "pm", "mod"})  # (mod 7) is not a factor
_ORDINALS = frozenset({"st", "nd", "rd", "th"})


class ScalarParser(Cursor):
    """Parser for one expression; the content of brackets is read by `listing` of the subclass."""

    def listing(self) -> Node:
        """Read a whole answer or the content of brackets; implemented by `AnswerParser`."""
        raise NotImplementedError

    def sum(self) -> Node:
        """Read terms joined by + - ± ∓."""
        left = self.signed_term()
        while self.next.kind == "mark":
            if self.take("+"):
                left = self.node("add", left, self.term())
            elif self.take("-"):
                left = self.node("add", left, self.node("neg", self.term()))
            elif self.next.text in ("pm", "mp"):
                kind = self.next.text
                self.index += 1
                left = self.node(kind, left, self.term())
            else:
                break
        return left

    def signed_term(self) -> Node:
        """Read a term with its leading signs."""
        if self.take("-"):
            self.enter()
            term = self.node("neg", self.signed_term())
            self.depth -= 1
            return term
        if self.next.text in ("pm", "mp") and self.next.kind == "mark":
            kind = self.next.text
            self.index += 1
            return self.node(kind, number(0), self.term())
        while self.take("+"):
            pass
        return self.term()

    def term(self) -> Node:
        """Read factors joined by signs or by juxtaposition."""
        left = self.factor()
        while True:
            token = self.next
            if token.kind == "mark" and token.text in ("*", "/"):
                if token.text == "/" and self.peek(1).kind == "word":
                    return left
                self.index += 1
                left = self.node("mul" if token.text == "*" else "div", left, self.factor())
            elif self.starts_factor(token):
                left = self.node("mul", left, self.factor())
            else:
                return left

    def starts_factor(self, token: Token) -> bool:
        """True if a token begins a factor that is multiplied without a sign."""
        if token.kind == "mark":
            if token.text == "(" and (self.peek(1).kind == "word" or self.peek(1).text.lower() in _BRACKETED_WORDS):
                return False
            return token.text in _STARTS or (token.text == "|" and not self.bars)
        if token.kind == "number":
            return self.tokens[self.index - 1].kind != "number"
        return token.kind in ("variable", "letters", "function")

    def factor(self) -> Node:
        """Read one factor with its own sign."""
        self.enter()
        if self.take("-"):
            factor = self.node("neg", self.factor())
        elif self.take("+"):
            factor = self.factor()
        else:
            factor = self.power(self.atom())
        self.depth -= 1
        return factor

    def power(self, base: Node) -> Node:
        """Read the suffixes of a base: powers, factorials, percent, degrees, primes."""
        while self.next.kind == "mark":
            if self.take("^"):
                base = self.raised(base)
            elif self.next.text == "!" and self.peek(1).text != "!":
                self.index += 1
                base = self.node("fact", base)
            elif self.take("%"):
                base = self.node("percent", base)
            elif self.take("degree"):
                base = self.degrees(base)
            elif self.next.text == "'" and base.kind == "var":
                self.index += 1
                base = self.node("var", name=base.name + "'")
            else:
                break
        return base

    def raised(self, base: Node) -> Node:
        """Read an exponent; a circle means degrees, and a prime is part of the name."""
        braces = self.take("{")
        if self.next.kind == "word" and self.next.text in _ORDINALS:
            self.index += 1
            if braces:
                self.expect("}")
            return base
        if self.next.text in ("circ", "degree", "o") and (not braces or self.peek(1).text == "}"):
            self.index += 1
            if braces:
                self.expect("}")
            return self.degrees(base)
        if self.next.text == "'":
            self.index += 1
            if braces:
                self.expect("}")
            return self.node("var", name=base.name + "'")
        if braces:
            self.enter()
            exponent = self.sum()
            self.depth -= 1
            self.expect("}")
        else:
            exponent = self.factor()
        return self.node("pow", base, exponent)

    def degrees(self, base: Node) -> Node:
        """Read the text after a degree sign; C or F makes it a temperature."""
        if self.next.kind in ("variable", "word") and self.next.text in ("C", "F"):
            scale = self.next.text
            self.index += 1
            return self.node("quantity", base, name=f"degree {scale}")
        return self.node("degree", base)

    def atom(self) -> Node:
        """Read a number, a name, a function or a bracket."""
        token = self.next
        reader = BY_KIND.get(token.kind) or BY_MARK.get(token.text)
        if reader is None or token.kind in ("word", "end"):
            raise NotReadableError(f"unexpected {token.text!r}")
        self.index += 1
        self.nodes += 1
        return reader(self, token)

    def argument(self) -> Node:
        r"""Read ``{...}`` or one token; a number without braces gives only its first digit."""
        if self.take("{"):
            return self.group(Token("mark", "{"))
        if self.next.kind == "number" and self.next.text.isdigit():
            return number(int(first_digit(self)))
        self.enter()
        atom = self.atom()
        self.depth -= 1
        return atom

    def group(self, token: Token) -> Node:
        r"""Read up to the closing brace, with ``{n \choose k}`` and ``{a \over b}``."""
        self.enter()
        inner = self.listing()
        for mark, kind in (("choose", "binom"), ("over", "div")):
            if self.take(mark):
                inner = self.node(kind, inner, self.listing())
        self.expect("}")
        self.depth -= 1
        return inner
