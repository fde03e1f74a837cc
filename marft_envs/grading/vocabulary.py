"""Vocabulary of the tokenizer: LaTeX commands and words of answers."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _spellings(table: str) -> dict[str, str]:
    """Parse lines of a token followed by its aliases; return the token of each alias."""
    rows = [line.split() for line in table.strip().splitlines()]
    return {command: token for token, *commands in rows for command in commands}


FUNCTIONS = _words("""
    sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot asin acos atan ln log lg
    exp abs sqrt gcd lcm max min floor ceil det
""")
CONSTANT_NAMES = {"pi": "pi", "infty": "oo", "infinity": "oo", "inf": "oo", "oo": "oo"}
UNIT_NAMES = _words("""
    cm mm km dm nm ft in mi yd kg mg lb lbs oz ml hr hrs min mins sec secs mph rpm pct yr yrs hz ha
    kmh kph rad deg sq cu gal mol am pm usd rmb cny hz khz kw kwh pa mb gb kb tb
""")
SHORT_WORDS = _words("""
    and or yes no odd the all one two six ten dne for if is of to by not are nor none red day days
    set max
""")
GREEK = _words("""
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho
    varrho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi
    Omega ell aleph
""")
COMMAND_ALIASES = _spellings("""
    * cdot times ast cdotp
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
    approx approx simeq thickapprox sim
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
    = cong
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
SYMBOL_ALIASES = {
    r"\{": "{set", r"\}": "set}", r"\%": "%", r"\$": "dollar", r"\|": "||", "**": "^", "<=": "<=", ">=": ">=",
    "!=": "!=", "==": "=", r"\\": "newline", "\uff05": "%", r"\_": "_", r"\#": "#", r"\&": "&",
}  # fmt: skip
LAYOUT_COMMANDS = _words("""
    left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle displaystyle
    textstyle scriptstyle limits nolimits quad qquad mathstrut strut boxed fbox bf it rm sf tt em
    cal mathbf mathit mathsf mathtt mathcal mathfrak boldsymbol bm pmb underline ensuremath large
    Large small normalsize nonumber hfill noindent centering protect hline thinspace smash mathopen
    mathclose mathord mathbin mathrel relax angle triangle hat vec overrightarrow widehat
""")
TEXT_COMMANDS = _words("""
    text textbf textit textrm textsf texttt textnormal mbox hbox mathrm operatorname emph textup
""")
LAYOUT_WITH_ARGUMENT = _words("""
    color textcolor hspace vspace phantom hphantom label tag footnote
""")
