r"""Lexer: split an answer in LaTeX, plain or Python style into tokens.

`plain_characters` rewrites Unicode in ASCII and LaTeX, then `tokenize` makes the tokens. Layout (``$``, ``\left``,
``\,``, ``\displaystyle``, ...) is dropped, and aliases get one spelling (``\leqslant`` is ``<=``, ``**`` is ``^``).
Letters become variables, function names or words.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from marft_envs.grading.limits import MAX_TOKENS, LimitExceededError


class Token(NamedTuple):
    """Token of an answer.

    Attributes:
        kind: "number", "repeating" (decimal), "based" (digits with a base), "variable", "function", "word", "letters"
            (a word or a product of variables), or "mark" for all others. The parser adds "end" tokens.
        text: Spelling, the same for all aliases.
    """

    kind: str
    text: str


# ---------------------------------------------------------------------- characters

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ", "0123456789+-ni", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_VULGAR_FRACTIONS = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_CHARACTERS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ",
    "∙": r"\cdot ", "•": r"\cdot ", "∗": "*", "÷": r"\div ", "∕": "/", "⁄": "/", "√": r"\sqrt ",
    "∛": r"\sqrt[3]", "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ",
    "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ", "±": r"\pm ", "∓": r"\mp ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "∖": r"\setminus ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "°": r"^\circ ",
    "′": "'", "″": "''", "’": "'", "‘": "'", "“": '"', "”": '"', "∠": r"\angle ", "→": r"\to ",
    "⟨": r"\langle ", "⟩": r"\rangle ", "〈": r"\langle ", "〉": r"\rangle ", "⌊": r"\lfloor ",
    "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "…": "...", "€": r"\euro ", "£": r"\pounds ",
    "¢": r"\text{cent}", "¥": r"\yen ", "￥": r"\yen ", "。": ".", "、": ",", "，": ",", "；": ";", "∶": ":", "：": ":",
    "【": "[", "】": "]", "　": " ", "\u00a0": " ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ",
    "δ": r"\delta ", "ε": r"\epsilon ", "θ": r"\theta ", "λ": r"\lambda ", "μ": r"\mu ", "ρ": r"\rho ",
    "σ": r"\sigma ", "τ": r"\tau ", "φ": r"\phi ", "ϕ": r"\phi ", "ω": r"\omega ", "Δ": r"\Delta ",
    "Ω": r"\Omega ", "Σ": r"\Sigma ", "△": r"\triangle ", "≅": r"\cong ", "≌": r"\cong ", "∼": r"\sim ",
    "∽": r"\sim ",
}  # fmt: skip
_CHARACTER_TABLE = str.maketrans(
    {
        **{char: f"_{{{plain}}}" for char, plain in _SUBSCRIPTS.items()},
        **{char: f" {plain} " for char, plain in _VULGAR_FRACTIONS.items()},
        **_CHARACTERS,
        **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\ufeff\u00ad", ""),
    }
)
_RATIO_WORD = re.compile(r"(?<=[\d})])\s?比\s?(?=[\d\\(])")


def plain_characters(text: str) -> str:
    r"""Rewrite typographic characters in ASCII and LaTeX; full-width forms are normalized (NFKC).

    Examples:
        >>> plain_characters("２√３ ≤ x²")
        '2\\sqrt 3 \\le  x^{2}'
    """
    if text.isascii():
        return text
    text = _RATIO_WORD.sub(":", _superscripts(text))
    text = unicodedata.normalize("NFKC", text.translate(_CHARACTER_TABLE))
    # NFKC can produce characters of the table: ℃ becomes °C.
    return text if text.isascii() else text.translate(_CHARACTER_TABLE)


def _superscripts(text: str) -> str:
    """Write each run of superscript characters as one ``^{...}``."""
    if not any(char in _SUPERSCRIPTS for char in text):
        return text
    parts: list[str] = []
    inside = False
    for char in text:
        raised = char in _SUPERSCRIPTS
        if raised != inside:
            parts.append("^{" if raised else "}")
            inside = raised
        parts.append(_SUPERSCRIPTS.get(char, char))
    return "".join(parts) + ("}" if inside else "")


# ---------------------------------------------------------------------- vocabulary


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _spellings(table: str) -> dict[str, str]:
    """Parse lines of a token followed by its aliases; return the token of each alias."""
    rows = [line.split() for line in table.strip().splitlines()]
    return {command: token for token, *commands in rows for command in commands}


_FUNCTIONS = _words("""
    sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot asin acos atan ln log lg
    exp abs sqrt gcd lcm max min floor ceil det
""")
_CONSTANT_NAMES = {"pi": "pi", "infty": "oo", "infinity": "oo", "inf": "oo", "oo": "oo"}
_VARIABLE_COMMANDS = {**_CONSTANT_NAMES, "imath": "i", "jmath": "j"}
_UNIT_NAMES = _words("""
    cm mm km dm nm ft in mi yd kg mg lb lbs oz ml hr hrs min mins sec secs mph rpm pct yr yrs hz ha
    kmh kph rad deg sq cu gal mol am pm usd rmb cny hz khz kw kwh pa mb gb kb tb
""")
_SHORT_WORDS = _words("""
    and or yes no odd the all one two six ten dne for if is of to by not are nor none red day days
    set max per men way
""")
_GREEK = _words("""
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho
    varrho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi
    Omega ell aleph
""")
_COMMAND_ALIASES = _spellings("""
    frac frac dfrac tfrac cfrac sfrac nicefrac
    * cdot ast cdotp
    × times
    / div
    <= le leq leqslant
    >= ge geq geqslant
    < lt
    > gt
    != ne neq
    in in
    cup cup bigcup
    cap cap
    setminus setminus backslash smallsetminus
    pm pm
    mp mp
    | vert mid lvert rvert
    lfloor lfloor
    rfloor rfloor
    lceil lceil
    rceil rceil
    langle langle
    rangle rangle
    {set lbrace
    set} rbrace
    [ lbrack
    ] rbrack
    emptyset emptyset varnothing
    circ circ
    degree degree deg
    ' prime
    approx approx simeq thickapprox
    sim sim
    cong cong
    equiv equiv
    to to rightarrow
    oo infty
    and land wedge
    or lor vee
    : colon
    choose choose
    over over
    ( lparen
    ) rparen
    || Vert
    vec vec overrightarrow
    overline overline bar
    ... dotsc dotsb ldots dots cdots
    ! exclamation
    % percent
    euro euro euros
    pound pounds
    yen yen
    dollar dollar textdollar
    binom dbinom tbinom
    mathbb Bbb
    mod bmod
""")
_SYMBOL_ALIASES = {
    r"\{": "{set", r"\}": "set}", r"\%": "%", r"\$": "dollar", r"\|": "||", "**": "^", "<=": "<=", ">=": ">=",
    "!=": "!=", "==": "=", r"\\": "newline", "\uff05": "%", r"\_": "_", r"\#": "#", r"\&": "&",
}  # fmt: skip
_LAYOUT_COMMANDS = _words("""
    left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle displaystyle
    textstyle scriptstyle limits nolimits quad qquad mathstrut strut bf it rm sf tt em
    cal mathit mathsf mathtt mathcal mathfrak underline ensuremath large
    Large small normalsize nonumber hfill noindent centering protect hline thinspace smash mathopen
    mathclose mathord mathbin mathrel relax widehat
""")
_TEXT_COMMANDS = _words("""
    text textbf textit textrm textsf texttt textnormal mbox hbox mathrm operatorname emph textup
""")
# Layout unless the pattern follows: one bold letter is a vector, three letters are the vertices of a figure.
_LETTER = re.compile(r"\s?(?:\{\s?(?:[A-Za-z]|\\[ij]math)\s?\}|[A-Za-z]|\\[ij]math)(?![A-Za-z])")
_VERTICES = re.compile(r"\s?\{?\s?(?:\\(?:text|mathrm)\s?\{\s?)?(?:[A-Z]'{0,2}(?:_\{?\w\}?)?\s?){3}(?![A-Za-z])")
_MARKS_BEFORE = {
    **dict.fromkeys(("mathbf", "boldsymbol", "bm", "pmb", "hat"), ("vec", _LETTER)),
    "angle": ("angle", _VERTICES),
    "triangle": ("triangle", _VERTICES),
}
_LAYOUT_WITH_ARGUMENT = _words("""
    color textcolor hspace vspace phantom hphantom label tag
""")


# ---------------------------------------------------------------------- tokens

_TOKEN = re.compile(
    r"(?P<space>(?:\s|~|\$|\\[,!;:> \n()\[\]]|&nbsp;)+)"
    r"|(?P<repeating>\d{0,50}\.\d{0,50}\\(?:overline|bar|dot)\s?(?:\{\d{1,50}\}|\d)(?:\d{0,50}\\dot\s?\{?\d\}?)?"
    r"|\d{1,50}\.\d{1,50}(?:\.\.\.|\\[lc]?dots)|\d{1,50}\.\d{0,50}\(\d{1,50}\))"
    r"|(?P<based>(?:\d|[A-F](?=\d))[0-9A-F]{0,60}_(?:\{\s?\d{1,2}\s?\}|\{\s?\\text\s?\{\s?[a-z]{3,7}\s?\}\s?\}|\d{1,2}(?!\d)))"
    r"|(?P<number>\d{1,3}(?:(?:,\\!\s?|\{,\}|,|\\,|\s)\d{3})+(?!\d)(?:\.\d+)?"
    r"|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3}(?![\dA-Za-z]))?)"
    r"|(?P<command>\\[A-Za-z]+\*?)"
    r"|(?P<letters>[A-Za-z]+)"
    r"|(?P<word>[^\W\d_]+)"
    r"|(?P<symbol>\\\\(?:\[[^\]]{0,9}\])?|\\.|\*\*|<=|>=|!=|==|\.\.\.|.)",
    re.DOTALL,
)
_MERIDIEM = re.compile(r"\b([ap])\.\s?m\.", re.IGNORECASE)
_UNIT_IN_BRACES = re.compile(r"(?<=\d)\s?\{\s?([A-Za-z]{2,12})\s?\}")
_ESCAPED_TWICE = re.compile(r"(?<!\\)\\{2}(?=(?:[dt]?frac|left|right|sqrt|text|begin|end|boxed|mathrm)(?![a-z]))")
_DIGITS_IN_TEXT = re.compile(r"\\(?:text|mathrm)\s?\{\s?([0-9A-F]{1,60})\s?\}\s?(?=_)")
_TRAILING = frozenset({".", ",", ";", ":", "!?"})


def tokenize(text: str) -> tuple[Token, ...]:
    """Split an answer into tokens.

    Args:
        text: Plain characters (`plain_characters`), at most `MAX_ANSWER_CHARS` of them.

    Raises:
        LimitExceededError: More than `MAX_TOKENS` tokens.
    """
    if "{" in text:
        text = _DIGITS_IN_TEXT.sub(r"\1", text)
        text = _ESCAPED_TWICE.sub(r"\\", _UNIT_IN_BRACES.sub(r"\\text{\1}", text))
    if "m." in text.lower():
        text = _MERIDIEM.sub(r"\1m ", text)
    tokenizer = _Tokenizer(text)
    tokenizer.run()
    tokens = tokenizer.tokens
    while tokens and tokens[-1].text in _TRAILING:
        tokens.pop()
    while tokens and tokens[0].text in ("=", "approx", "cong", "sim", ":", "to"):
        tokens.pop(0)
    return tuple(tokens)


class _Tokenizer:
    r"""One pass over a text.

    Attributes:
        position: Index of the next character.
        depth: Number of open braces.
        brackets: Number of open brackets other than braces.
        text_depths: Brace depths at which a ``\text{`` group is open.
        tokens: Tokens so far.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self.brackets = 0
        self.text_depths: list[int] = []
        self.tokens: list[Token] = []

    def run(self) -> None:
        length = len(self.text)
        while self.position < length:
            match = _TOKEN.match(self.text, self.position)
            if match is None:  # the last alternative takes any character
                raise LimitExceededError("unreadable character")
            self.position = match.end()
            kind, text = match.lastgroup, match.group()
            if kind == "space":
                continue
            if kind == "number":
                self.number(text)
            elif kind == "letters":
                self.letters(text)
            elif kind == "symbol":
                self.symbol(text)
            elif kind == "command":
                self.command(text)
            else:  # repeating, based or word
                self.add(str(kind), text)
            if len(self.tokens) > MAX_TOKENS:
                raise LimitExceededError(f"more than {MAX_TOKENS} tokens")

    def add(self, kind: str, text: str) -> None:
        self.tokens.append(Token(kind, text))

    def number(self, text: str) -> None:
        if text.isdigit():
            self.add("number", text)
        elif "," in text and self.brackets and "{" not in text and "\\" not in text:
            first, *others = text.split(",")  # inside brackets (1,234) is a pair
            self.add("number", first)
            for part in others:
                self.add("mark", ",")
                self.add("number", part)
        else:
            self.add("number", re.sub(r"[^\d.eE+-]", "", text))  # 1,234 and 1\,234 without separators

    def command(self, text: str) -> None:
        name = text[1:].rstrip("*")
        if name in _TEXT_COMMANDS:
            while self.text.startswith((" ", "\n"), self.position):
                self.position += 1
            if self.text.startswith("{", self.position):
                self.text_depths.append(self.depth)
        elif name in _VARIABLE_COMMANDS:
            self.add("variable", _VARIABLE_COMMANDS[name])
        elif name in _COMMAND_ALIASES:
            self.add("mark", _COMMAND_ALIASES[name])
        elif name in _FUNCTIONS and name != "sqrt":
            self.add("function", name)
        elif name in _GREEK:
            self.add("variable", name.removeprefix("var"))
        elif name in _LAYOUT_COMMANDS or self.is_layout(name):
            if name in ("left", "right") and self.text.startswith(".", self.position):
                self.position += 1
        elif name in _LAYOUT_WITH_ARGUMENT:
            end = self.text.find("}", self.position, self.position + 40)
            if self.text.startswith("{", self.position) and end > 0:
                self.position = end + 1
        else:
            self.add("mark", _MARKS_BEFORE[name][0] if name in _MARKS_BEFORE else name)

    def is_layout(self, name: str) -> bool:
        """True if a command does not stand before what it marks."""
        return name in _MARKS_BEFORE and not _MARKS_BEFORE[name][1].match(self.text, self.position)

    def letters(self, text: str) -> None:
        lower = text.lower()
        if self.text_depths and self.depth > self.text_depths[-1]:
            self.letters_in_text(text)
        elif lower in ("st", "nd", "rd", "th") and self.tokens and self.tokens[-1].kind == "number":
            return  # 5th is 5
        elif text in _FUNCTIONS and not (text == "min" and self.is_after_value()):
            self.add("mark" if text == "sqrt" else "function", text)
        elif lower in _CONSTANT_NAMES:
            self.add("variable", _CONSTANT_NAMES[lower])
        elif len(text) == 1:
            self.add("variable", text)
        elif len(text) >= 4 or lower in _SHORT_WORDS or (lower in _UNIT_NAMES and self.is_after_value()):
            self.add("word", text)
        else:
            self.add("letters", text)

    def letters_in_text(self, text: str) -> None:
        r"""Add letters inside ``\text{...}``: a word, unless they are one letter or name a function."""
        # After a value one letter is a unit, as in 5\text{m}; but i and e never are, as in 5\mathrm{i}.
        is_unit = self.is_after_value() and (text not in "ie" or self.tokens[-1].kind == "word")
        lower = text.lower()
        if len(text) == 1 and not is_unit:
            self.add("variable", text)
        elif lower in _FUNCTIONS and lower not in ("min", "max"):
            self.add("function", lower)
        else:
            self.add("word", text)

    def is_after_value(self) -> bool:
        if not self.tokens:
            return False
        kind, text = self.tokens[-1]
        return kind in ("number", "repeating", "based", "word") or text in (")", "}", "pi", "/", "%", "!")

    def symbol(self, text: str) -> None:
        if text == "{":
            self.depth += 1
            if self.text_depths and self.text_depths[-1] == self.depth - 1:
                return  # opens a text group
        elif text == "}":
            self.depth -= 1
            if self.text_depths and self.text_depths[-1] == self.depth:
                self.text_depths.pop()  # closes a text group
                return
        elif text == "." and self.tokens and self.tokens[-1].kind == "word":
            return  # an abbreviation: sq. units
        elif text in ("(", "[", "\\{"):
            self.brackets += 1
        elif text in (")", "]", "\\}"):
            self.brackets -= 1
        elif text.startswith(r"\\"):
            text = r"\\"  # a line break may have a height: \\[2pt]
        self.add("mark", _SYMBOL_ALIASES.get(text, text))
