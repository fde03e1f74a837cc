r"""Recursive-descent parser for one expression, such as ``2\frac{3}{4}x^2 + \sqrt{5}``.

Grammar: a sum of terms, a term of factors, a factor is an atom with powers and other suffixes. What stands between
brackets may be a whole answer (a list, a relation), so the subclass `AnswerParser` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from marft_envs.grading.expression import Node, is_scalar, number
from marft_envs.grading.lexer import Token
from marft_envs.grading.limits import MAX_DEPTH, MAX_NODES, MAX_STEPS, LimitExceededError, NotReadableError

_END = Token("end", "")
_SERIES = ("sum", "prod", "int", "lim")
_SIGNS = {"*": ("mul", ""), "×": ("mul", "×"), "/": ("div", "")}  # × matters between vectors
_NAMES = ("vec", "overline", "angle", "triangle")
_FUNCTION_LETTERS = frozenset("fghFGHTP")  # f(x) is no product; a(b+c) and x(x+1) are
# marks that begin an implicit factor
_FACTOR_MARKS = frozenset({"(", "{", "frac", "sqrt", "binom", "lfloor", "lceil", "oo", "begin", *_NAMES, *_SERIES})
_BRACKETED_WORDS = frozenset({"am", "pm", "mod"})  # (mod 7) is not a factor
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
_CLOSERS = {"(": (")", "]"), "[": (")", "]"), "{set": ("set}",), "langle": ("rangle",)}
_BASE_NAMES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "twelve": 12, "sixteen": 16,
}  # fmt: skip
_ELLIPSIS = re.compile(r"(\d{1,50})\.(\d{0,50}?)(\d{1,6}?)\3{2,}\D+$")  # 0.1666...: whole, fixed digits, period


class Cursor:
    """Cursor over tokens from left to right; bounds the nodes, the steps and the depth of nesting.

    Attributes:
        tokens: All tokens, and two of kind "end".
        index: Index of the next token.
        nodes: Number of nodes created so far.
        depth: Number of open levels of nesting.
        steps: Number of levels entered so far.
        bars: Number of open absolute values in this bracket; a bar closes the innermost one.
        vectors: Names that an arrow, a hat or bold type marks as vectors.
    """

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = (*tokens, _END, _END)  # padding: look-ahead needs no bounds check
        self.index = 0
        self.nodes = 0
        self.depth = 0
        self.steps = 0
        self.bars = 0
        self.vectors: set[str] = set()

    @property
    def next(self) -> Token:
        """Next token to be read."""
        return self.tokens[self.index]

    def peek(self, offset: int) -> Token:
        """Return the token `offset` places ahead."""
        index = self.index + offset
        return self.tokens[index] if index < len(self.tokens) else _END

    def take(self, text: str) -> bool:
        """Consume a mark if it is the next token; return True if it was."""
        token = self.next
        if token.text == text and token.kind == "mark":
            self.index += 1
            return True
        return False

    def take_any(self) -> Token:
        """Consume and return the next token of any kind."""
        token = self.next
        if token.kind == "end":
            raise NotReadableError("unexpected end")
        self.index += 1
        return token

    def expect(self, text: str) -> None:
        """Consume a mark; raise `NotReadableError` if the next token differs."""
        if not self.take(text):
            raise NotReadableError(f"expected {text!r}, found {self.next.text!r}")

    def node(self, kind: str, *args: Node, name: str = "") -> Node:
        """Create and count a node."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise LimitExceededError(f"more than {MAX_NODES} terms")
        return Node(kind, args, None, name)

    def enter(self) -> None:
        """Count a level of nesting and a step; the step bound ends every loop over elements or factors."""
        self.depth += 1
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise LimitExceededError(f"more than {MAX_STEPS} steps")
        if self.depth > MAX_DEPTH:
            raise LimitExceededError(f"nested deeper than {MAX_DEPTH}")


class ExpressionParser(Cursor):
    """Parser for one expression."""

    def listing(self) -> Node:
        """Read a whole answer or the content of brackets; implemented by `AnswerParser`."""
        raise NotImplementedError

    # ------------------------------------------------------------------ sums, products, powers

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
            if token.kind == "mark" and token.text in ("*", "×", "/"):
                if token.text == "/" and self.peek(1).kind == "word":
                    return left  # a unit follows: 5 / hour
                self.index += 1
                kind, name = _SIGNS[token.text]
                left = self.node(kind, left, self.factor(), name=name)
            elif self.starts_factor(token):
                left = self.node("mul", left, self.factor())
            else:
                return left

    def starts_factor(self, token: Token) -> bool:
        """True if a token begins a factor that is multiplied without a sign."""
        if token.kind == "mark":
            if token.text == "(" and (self.peek(1).kind == "word" or self.peek(1).text.lower() in _BRACKETED_WORDS):
                return False
            return token.text in _FACTOR_MARKS or (token.text == "|" and not self.bars)
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
        """Read an exponent; a circle means degrees, a prime is part of the name, an ordinal ending is dropped.

        A sign alone is the side of a limit: 0^+.
        """
        has_braces = self.take("{")
        token = self.next
        if token.text in ("+", "-") and self.ends_exponent(self.peek(1), has_braces):
            self.index += 1 + has_braces
            return self.node("side", base, name=token.text)
        is_ordinal = token.text in _ORDINALS and (
            token.kind == "word" or (token.kind == "letters" and base.kind == "num")  # 15^{th}
        )
        is_degree = token.text in ("circ", "degree", "o") and (not has_braces or self.peek(1).text == "}")
        if is_ordinal or is_degree or token.text == "'":
            self.index += 1
            if has_braces:
                self.expect("}")
            if is_ordinal:
                return base
            return self.degrees(base) if is_degree else self.node("var", name=base.name + "'")
        if has_braces:
            self.enter()
            exponent = self.sum()
            self.depth -= 1
            self.expect("}")
        else:
            exponent = self.factor()
        return self.node("pow", base, exponent)

    def ends_exponent(self, token: Token, has_braces: bool) -> bool:
        """True if a token stands behind an exponent that is only a sign."""
        if has_braces:
            return token.text == "}"
        return not self.starts_factor(token) and token.text not in ("+", "-")

    def degrees(self, base: Node) -> Node:
        """Read the text after a degree sign; C or F makes it a temperature."""
        if self.next.kind in ("variable", "word") and self.next.text in ("C", "F"):
            scale = self.next.text
            self.index += 1
            return self.node("quantity", base, name=f"degree {scale}")
        return self.node("degree", base)

    # ------------------------------------------------------------------ atoms

    def atom(self) -> Node:
        """Read a number, a name, a function or a bracket."""
        token = self.next
        reader = _BY_KIND.get(token.kind) or _BY_MARK.get(token.text)
        if reader is None or token.kind in ("word", "end"):
            raise NotReadableError(f"unexpected {token.text!r}")
        self.index += 1
        self.nodes += 1
        return reader(self, token)

    def argument(self) -> Node:
        r"""Read ``{...}`` or one token; a number without braces gives only its first digit."""
        if self.take("{"):
            return self.braces()
        if self.next.kind == "number" and self.next.text.isdigit():
            return number(int(self.first_digit()))
        self.enter()
        atom = self.atom()
        self.depth -= 1
        return atom

    def braces(self) -> Node:
        r"""Read up to the closing brace, with ``{n \choose k}`` and ``{a \over b}``."""
        self.enter()
        inner = self.listing()
        for mark, kind in (("choose", "binom"), ("over", "div")):
            if self.take(mark):
                inner = self.node(kind, inner, self.listing())
        self.expect("}")
        self.depth -= 1
        return inner

    def brackets(self, token: Token) -> Node:
        """Read a bracket: a group, a tuple, an interval or a set."""
        self.enter()
        bars, self.bars = self.bars, 0
        if token.text == "{set":
            self.skip_condition_head()
        closers = _CLOSERS[token.text]
        inner = Node("list") if self.next.text in closers else self.listing()
        closer = self.next.text
        if closer not in closers:
            raise NotReadableError(f"unclosed {token.text!r}")
        self.index += 1
        self.bars = bars
        self.depth -= 1
        items = inner.args if inner.kind == "list" else (inner,)
        if token.text == "{set":
            if len(items) == 1 and items[0].kind in ("rel", "cup", "cap"):
                return items[0]  # {x | x > 2} is the inequality
            if inner.kind == "list" and items and all(item.kind == "rel" and item.name != "=" for item in items):
                return inner
            return self.node("set", *items) if items else Node("emptyset")
        if token.text == "langle":
            return self.node("tuple", *items, name="()")
        if len(items) == 1 and inner.kind != "list":
            # A product of letters in brackets is no word, so it loses the name that keeps its letters.
            return inner._replace(name="") if inner.kind == "mul" and inner.name != "×" else inner
        return self.node("tuple", *items, name=token.text + closer)

    def skip_condition_head(self) -> None:
        r"""Skip ``x \mid`` or ``x \in \mathbb{R} :`` of a set given by a condition."""
        if self.next.kind == "variable" and self.peek(1).text in ("|", ":", "in"):
            for offset in range(1, 8):
                if self.peek(offset).text in ("|", ":"):
                    self.index += offset + 1
                    return

    def variable(self, token: Token) -> Node:
        """Read a letter with its index, or a function applied to its arguments; e and i are constants."""
        name = token.text
        if name in ("pi", "e", "i", "oo"):
            return Node("const", name=name)
        if self.take("_"):
            name += "_" + self.index_text()
        call = self.call(name) if token.text in _FUNCTION_LETTERS else None
        return call or Node("var", name=name)

    def call(self, name: str) -> Node | None:
        """Read the arguments of ``f(x)``, ``f'(x)``, ``f^{-1}(x)`` or ``f^{(n)}(x)``; None if no bracket follows."""
        start = self.index
        while self.take("'"):
            name += "'"
        if self.next.text == "^" and self.peek(1).text == "{" and self.peek(2).text in ("-", "("):
            self.index += 1
            name += "^" + self.index_text()
        token = self.next
        if not self.take("("):
            self.index = start
            return None
        inner = self.brackets(token)
        return self.node("call", *(inner.args if inner.kind in ("tuple", "list") else (inner,)), name=name)

    def index_text(self) -> str:
        """Read an index, or another argument in braces, as text."""
        if not self.take("{"):
            return self.take_any().text
        start = self.index
        while self.next.text not in ("}", ""):
            self.index += 1
        text = "".join(token.text for token in self.tokens[start : self.index])
        self.expect("}")
        return text

    def letters(self, token: Token) -> Node:
        """Read two or three adjacent letters as a product; its name keeps the letters, as they may be a word."""
        product = self.variable(Token("variable", token.text[0]))
        for letter in token.text[1:-1]:
            product = self.node("mul", product, self.variable(Token("variable", letter)))
        last = self.power(self.variable(Token("variable", token.text[-1])))
        return self.node("mul", product, last, name=token.text if last.kind in ("var", "const") else "")

    def function(self, token: Token) -> Node:
        """Read a function with its base, power and argument."""
        name, base, exponent = token.text, None, None
        while self.next.text in ("_", "^") and self.next.kind == "mark":
            if self.take("_"):
                base = self.argument()
            else:
                self.index += 1
                exponent = self.argument()
        if exponent == Node("neg", (number(1),)) and name in _INVERSES:
            name, exponent = _INVERSES[name], None
        args = self.function_arguments()
        if base is not None:
            args, name = (*args, base), name + "_"
        result = self.node("func", *args, name=name)
        return result if exponent is None else self.node("pow", result, exponent)

    def function_arguments(self) -> tuple[Node, ...]:
        r"""Read ``(x)``, ``{x}`` or the product up to the next sign or function."""
        if self.next.text in ("(", "{", "|"):
            inner = self.atom()
            if inner.kind in ("tuple", "list"):
                return inner.args
            if not is_scalar(inner):
                raise NotReadableError("a function of a structure")
            return (inner,)
        product = self.factor()
        while self.starts_factor(self.next) and self.next.kind != "function" and self.next.text != "(":
            product = self.node("mul", product, self.factor())
        return (product,)

    def fraction(self, token: Token) -> Node:
        r"""Read ``\frac{a}{b}``."""
        above = self.argument()
        return self.node("div", above, self.argument())

    def binomial(self, token: Token) -> Node:
        r"""Read ``\binom{n}{k}``."""
        above = self.argument()
        return self.node("binom", above, self.argument())

    def root(self, token: Token) -> Node:
        r"""Read ``\sqrt[n]{a}``; without braces the radicand is a whole number or one factor."""
        degree = number(2)
        if self.take("["):
            degree = self.sum()
            self.expect("]")
        if self.take("{"):
            return self.node("root", self.braces(), degree)
        self.enter()
        radicand = self.atom()
        self.depth -= 1
        return self.node("root", radicand, degree)

    def vector(self, token: Token) -> Node:
        r"""Read ``\vec{a}``, or ``\overrightarrow{AB}`` as B - A."""
        inner = self.argument()
        if self.take("_"):
            inner = inner._replace(name=inner.name + "_" + self.index_text())
        if inner.kind == "mul" and all(part.kind == "var" and part.name[0].isupper() for part in inner.args):
            start, end = inner.args
            self.vectors |= {start.name, end.name}
            return self.node("add", end, self.node("neg", start))
        if inner.kind in ("var", "const"):
            self.vectors.add(inner.name)
            return Node("var", name=inner.name)
        return inner

    def overlined(self, token: Token) -> Node:
        r"""Read ``\overline{AB}`` as the segment BA; another line makes a new name of what is below it."""
        start = self.index
        inner = self.argument()
        if inner.kind == "mul" and len(inner.name) == 2 and inner.name.isupper():
            return inner
        return Node("var", name="‾" + "".join(token.text for token in self.tokens[start : self.index]))

    def figure(self, token: Token) -> Node:
        r"""Read ``\angle ABC``, which is ``\angle CBA``, or ``\triangle ABC``, which any order of the vertices names.

        A triangle keeps its vertices in order as arguments: a congruence tells which of them correspond.
        """
        has_braces = self.take("{")
        vertices: list[str] = []
        while len(vertices) < 3:
            vertices += self.take_any().text
            while self.next.text in ("'", "_"):
                vertices[-1] += "'" if self.take("'") else self.take_any().text + self.index_text()
        if has_braces:
            self.expect("}")
        if token.text == "angle":
            return Node("var", name="∠" + "".join(min(vertices, vertices[::-1])))
        return Node(
            "var", tuple(Node("var", name=vertex) for vertex in vertices), None, "△" + "".join(sorted(vertices))
        )

    def series(self, token: Token) -> Node:
        r"""Read ``\sum_{k=1}^{n} k``, a product, an integral or a limit; only the symbolic tier computes them."""
        bounds = []
        while self.next.kind == "mark" and self.next.text in ("_", "^"):
            self.index += 1
            bounds.append(self.argument())
        return self.node("series", *bounds, self.term(), name=token.text)

    def absolute_value(self, token: Token) -> Node:
        """Read an absolute value up to its closing bar."""
        self.enter()
        self.bars += 1
        inner = self.sum()
        self.expect("|")
        self.bars -= 1
        self.depth -= 1
        return self.node("abs", inner)

    def rounded(self, token: Token) -> Node:
        """Read a floor or a ceiling."""
        self.enter()
        kind = token.text[1:]  # lfloor and lceil open what rfloor and rceil close
        inner = self.sum()
        self.expect("r" + kind)
        self.depth -= 1
        return self.node(kind, inner)

    # ------------------------------------------------------------------ number literals

    def plain_number(self, token: Token) -> Node:
        """Read an integer, a decimal or a mixed number."""
        text = token.text
        if text.isdigit():
            return self.mixed_number(int(text))
        try:
            return number(Fraction(text.removesuffix(".")), text)
        except ValueError as error:
            raise NotReadableError(f"no number: {text!r}") from error

    def mixed_number(self, whole: int) -> Node:
        r"""Read the fraction of ``2\frac{3}{4}`` or ``2 3/4``; without one return the whole number."""
        start = self.index
        above = below = None
        if self.take("frac"):
            above, below = self.digit_argument(), self.digit_argument()
        elif self.next.kind == "number" and self.peek(1).text == "/" and self.peek(2).kind == "number":
            above, below = self.next.text, self.peek(2).text
            self.index += 3
        if above and below and above.isdigit() and below.isdigit() and int(above) < int(below):
            return number(whole + Fraction(int(above), int(below)))
        self.index = start
        return number(whole)

    def digit_argument(self) -> str | None:
        """Read ``{12}`` or one digit; return None for any other argument."""
        if self.next.text == "{" and self.peek(1).kind == "number" and self.peek(2).text == "}":
            digits = self.peek(1).text
            self.index += 3
            return digits
        if self.next.kind == "number" and self.next.text.isdigit():
            return self.first_digit()
        return None

    def first_digit(self) -> str:
        """Take the first digit of the next number, as TeX does for an argument without braces."""
        digits = self.next.text
        if len(digits) == 1:
            self.index += 1
        else:  # the other digits stay as a number of their own
            rest = Token("number", digits[1:])
            self.tokens = (*self.tokens[: self.index], rest, *self.tokens[self.index + 1 :])
        return digits[0]

    def repeating_decimal(self, token: Token) -> Node:
        r"""Read ``0.1\overline{6}``, ``0.\dot{1}4285\dot{7}``, ``0.(3)`` or ``0.333...``."""
        if "." in token.text[-3:] or token.text.endswith("dots"):
            match = _ELLIPSIS.match(token.text)
            if match is None:
                raise NotReadableError("decimals that go on unknown")
            whole, fixed, period = match.groups()
        else:
            head, rest = re.split(r"[\\(]", token.text, maxsplit=1)
            whole, _, fixed = head.partition(".")
            period = re.sub(r"\D", "", rest)
        # w.f(p) is (wf + p / 99..9) / 10^|f|
        tail = Fraction(int(period), 10 ** len(period) - 1)
        return number((int((whole or "0") + fixed) + tail) / 10 ** len(fixed))

    def number_in_base(self, token: Token) -> Node:
        """Read digits with a base: ``1A_{16}``."""
        digits, _, subscript = token.text.partition("_")
        base_text = re.sub(r"\\text|[{}\s]", "", subscript)
        base = int(base_text) if base_text.isdigit() else _BASE_NAMES.get(base_text, 0)
        if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits):
            raise NotReadableError(f"no number of base {base_text}")
        return Node("based", (number(int(digits, base)),), Fraction(base), digits)


# The reader of an atom gets the first token, which is consumed already.
_BY_KIND: dict[str, Callable[[ExpressionParser, Token], Node]] = {
    "number": ExpressionParser.plain_number,
    "repeating": ExpressionParser.repeating_decimal,
    "based": ExpressionParser.number_in_base,
    "variable": ExpressionParser.variable,
    "letters": ExpressionParser.letters,
    "function": ExpressionParser.function,
}
_BY_MARK: dict[str, Callable[[ExpressionParser, Token], Node]] = {
    "(": ExpressionParser.brackets,
    "[": ExpressionParser.brackets,
    "{set": ExpressionParser.brackets,
    "langle": ExpressionParser.brackets,
    "{": lambda parser, token: parser.braces(),
    "|": ExpressionParser.absolute_value,
    "frac": ExpressionParser.fraction,
    "sqrt": ExpressionParser.root,
    "binom": ExpressionParser.binomial,
    "lfloor": ExpressionParser.rounded,
    "lceil": ExpressionParser.rounded,
    "oo": lambda parser, token: Node("const", name="oo"),
    "vec": ExpressionParser.vector,
    "overline": ExpressionParser.overlined,
    "angle": ExpressionParser.figure,
    "triangle": ExpressionParser.figure,
    **dict.fromkeys(_SERIES, ExpressionParser.series),
}
