"""Worked solutions in the style of GSM8K, with computed calculations written as <<48/2=24>>."""

import ast
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from envs_data.build.draft import Draft

OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Person(NamedTuple):
    """First name of a person with pronouns."""

    name: str
    she: str
    her: str
    object: str


WOMEN = (
    "Alma",
    "Beatriz",
    "Chloe",
    "Dina",
    "Elif",
    "Farah",
    "Grace",
    "Hana",
    "Ines",
    "Joan",
    "Keiko",
    "Lena",
    "Maya",
)
MEN = (
    "Aaron",
    "Boris",
    "Carlos",
    "Dev",
    "Ethan",
    "Felix",
    "Georg",
    "Hugo",
    "Ivan",
    "Jamal",
    "Kofi",
    "Luis",
    "Marco",
)
PEOPLE = (
    *(Person(name, "she", "her", "her") for name in WOMEN),
    *(Person(name, "he", "his", "him") for name in MEN),
)


def people(rng: random.Random, count: int) -> list[Person]:
    """Sample `count` distinct people."""
    return rng.sample(PEOPLE, count)


def evaluate(expression: str) -> Fraction:
    """Return the exact value of an arithmetic expression of integers and decimals.

    Raises:
        ValueError: The expression holds anything but + - * / and numbers.
    """
    return _value(ast.parse(expression, mode="eval").body, expression)


def _value(node: ast.expr, source: str) -> Fraction:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Fraction(str(node.value))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left, source), _value(node.right, source))
    raise ValueError(f"evaluate: found {source!r}, wanted numbers with + - * /")


def shown(value: Fraction) -> str:
    """Format a value as an integer or a decimal with at most two places.

    Raises:
        ValueError: The value needs more than two places.
    """
    if value.denominator == 1:
        return str(value.numerator)
    if (value * 100).denominator != 1:
        raise ValueError(f"shown: found {value}, wanted at most two decimal places")
    return f"{float(value):.2f}".rstrip("0")


@dataclass(frozen=True)
class Step:
    """One line of a worked solution.

    Attributes:
        sentence: Text with the placeholder "{}" for the calculation.
        expression: Arithmetic expression to compute, e.g. "48/2".
        sign: Prefix of the result, e.g. "$".
    """

    sentence: str
    expression: str
    sign: str = ""

    @property
    def line(self) -> str:
        """The line in the notation of GSM8K."""
        result = shown(evaluate(self.expression))
        readable = self.expression.replace("*", " x ").replace("+", " + ").replace("-", " - ").replace("/", " / ")
        return self.sentence.format(f"{readable} = {self.sign}<<{self.expression}={result}>>{result}")


def word_problem(parameters: tuple[object, ...], question: str, *steps: Step) -> Draft:
    """Create a draft whose answer is the value of the last step.

    Raises:
        ValueError: The answer is not an integer.
    """
    final = evaluate(steps[-1].expression)
    if final.denominator != 1:
        raise ValueError(f"{question!r}: found answer {final}, wanted a whole number")
    lines = [step.line for step in steps]
    text = f"{final.numerator:,}" if abs(final) >= 10_000 else str(final.numerator)
    return Draft(parameters, {"question": question, "answer": "\n".join([*lines, f"#### {text}"])})
