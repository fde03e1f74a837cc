"""LaTeX formatting of exact numbers and structures; sympy's printer changes between releases."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

Number = int | Fraction


def box(content: object) -> str:
    """Format an answer in a box."""
    return rf"\boxed{{{content}}}"


def frac(value: Number) -> str:
    r"""Format a reduced number: 3, -2 or \frac{3}{4}."""
    value = Fraction(value)
    sign = "-" if value < 0 else ""
    if value.denominator == 1:
        return str(value.numerator)
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def reduced(top: int, bottom: int) -> str:
    r"""Format the boxed value of top/bottom, preceded by the fraction itself if it can be reduced."""
    value = Fraction(top, bottom)
    plain = rf"\frac{{{top}}}{{{bottom}}} = " if value.denominator != bottom else ""
    return plain + box(frac(value))


def decimal(value: Number) -> str:
    """Format a terminating decimal without trailing zeros: Fraction(5, 2) is 2.5.

    Raises:
        ValueError: The decimal does not end within 12 places.
    """
    value = Fraction(value)
    scaled = value * 10**12
    if scaled.denominator != 1:
        raise ValueError(f"decimal: found {value}, wanted a fraction with at most 12 decimal places")
    whole, part = divmod(abs(scaled.numerator), 10**12)
    digits = f"{whole}.{part:012d}".rstrip("0").rstrip(".")
    return ("-" if value < 0 else "") + digits


def signed(value: Number) -> str:
    """Format a term in the middle of a sum: "+ 3" or "- 3"."""
    return f"- {frac(-value)}" if value < 0 else f"+ {frac(value)}"


def bracketed(value: Number) -> str:
    """Format a number, in brackets if it is negative."""
    return f"({frac(value)})" if value < 0 else frac(value)


def poly(coefficients: Sequence[Number], variable: str = "x") -> str:
    """Format a polynomial from its coefficients, highest power first."""
    degree = len(coefficients) - 1
    text = ""
    for power, value in zip(range(degree, -1, -1), coefficients, strict=True):
        if value == 0:
            continue
        part = _monomial(abs(Fraction(value)), power, variable)
        if text:
            text += f" {'-' if value < 0 else '+'} {part}"
        else:
            text = f"-{part}" if value < 0 else part
    return text or "0"


def _monomial(value: Fraction, power: int, variable: str) -> str:
    if power == 0:
        return frac(value)
    symbol = variable if power == 1 else f"{variable}^{power}" if power < 10 else f"{variable}^{{{power}}}"
    return symbol if value == 1 else frac(value) + symbol


def square_part(number: int) -> tuple[int, int]:
    """Return (a, b) with number = a^2 b and b square-free; number > 0."""
    outer, inner, divisor = 1, number, 2
    while divisor * divisor <= inner:
        while inner % (divisor * divisor) == 0:
            inner //= divisor * divisor
            outer *= divisor
        divisor += 1
    return outer, inner


def surd(radicand: int, factor: Number = 1) -> str:
    """Format factor * sqrt(radicand) in lowest terms; radicand >= 0."""
    factor = Fraction(factor)
    if radicand == 0 or factor == 0:
        return "0"
    outer, inner = square_part(radicand)
    factor *= outer
    if inner == 1:
        return frac(factor)
    root = rf"\sqrt{{{inner}}}"
    return _times(factor, root)


def pi(factor: Number) -> str:
    """Format a rational multiple of pi."""
    return _times(Fraction(factor), r"\pi")


def _times(factor: Fraction, symbol: str) -> str:
    if factor == 0:
        return "0"
    sign = "-" if factor < 0 else ""
    top = abs(factor.numerator)
    head = symbol if top == 1 else f"{top}{symbol}"
    return sign + (head if factor.denominator == 1 else rf"\frac{{{head}}}{{{factor.denominator}}}")


def complex_number(real: Number, imaginary: Number) -> str:
    """Format a complex number a + bi."""
    part = "" if abs(imaginary) == 1 else frac(abs(Fraction(imaginary)))
    if imaginary == 0:
        return frac(real)
    if real == 0:
        return f"{'-' if imaginary < 0 else ''}{part}i"
    return f"{frac(real)} {'-' if imaginary < 0 else '+'} {part}i"


def point(*coordinates: Number | str) -> str:
    """Format an ordered pair or triple; text coordinates are used as LaTeX."""
    inner = ", ".join(c if isinstance(c, str) else frac(c) for c in coordinates)
    return rf"\left({inner}\right)" if r"\frac" in inner else f"({inner})"


def matrix(rows: Sequence[Sequence[Number]]) -> str:
    """Format a matrix in round brackets."""
    body = r" \\ ".join(" & ".join(frac(cell) for cell in row) for row in rows)
    return rf"\begin{{pmatrix}} {body} \end{{pmatrix}}"


def column(entries: Sequence[Number]) -> str:
    """Format a column vector."""
    return matrix([[entry] for entry in entries])


def factorised(factors: dict[int, int]) -> str:
    r"""Format a factorization: {2: 3, 5: 1} is 2^3 \cdot 5."""
    parts = [f"{p}" if e == 1 else f"{p}^{e}" if e < 10 else f"{p}^{{{e}}}" for p, e in sorted(factors.items())]
    return r" \cdot ".join(parts)


def listed(values: Sequence[object]) -> str:
    """Format values for a sentence: "1, 2 and 3"."""
    texts = [str(value) for value in values]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def product(values: Iterable[object]) -> str:
    r"""Format a product: 2 \cdot 3 \cdot 5."""
    return r" \cdot ".join(str(value) for value in values)


def outside(low: Number, high: Number) -> str:
    """Format the union of the two open rays outside of [low, high]."""
    if Fraction(low).denominator == Fraction(high).denominator == 1:
        return rf"(-\infty, {low}) \cup ({high}, \infty)"
    return rf"\left(-\infty, {frac(low)}\right) \cup \left({frac(high)}, \infty\right)"
