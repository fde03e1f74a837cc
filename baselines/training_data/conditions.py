"""`--where`: a condition on a recorded episode, in a small subset of Python expressions.

    success and not violation
    reward > 0.5 and level in (4, 5) and terms.completion == 1

The expression is parsed and interpreted here; no code of it runs. Allowed are names of facts, numbers, texts, True,
False and None, lists and tuples of these, comparisons, `and`, `or`, `not`, a minus sign, and `terms.NAME` or
`terms["NAME"]` for facts that hold several values.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from marft_common.close_names import close_or_all

COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
MOST_CHARACTERS = 1000
WANTED = "names, numbers, texts, comparisons, and, or, not, like 'success and not violation'"


class ConditionError(ValueError):
    """A condition that cannot be read or decided; the message has the place, what was found and what was wanted."""


@dataclass(frozen=True)
class Condition:
    """A condition on the facts of an episode.

    Attributes:
        text: The condition as it was given.
        names: Facts that it names.
    """

    text: str
    names: frozenset[str]
    _body: ast.expr

    @classmethod
    def read(cls, text: str) -> Condition:
        """Parse a condition.

        Raises:
            ConditionError: It is no expression, or uses more than names, constants and comparisons.
        """
        try:
            if len(text) > MOST_CHARACTERS:
                raise ValueError(f"more than {MOST_CHARACTERS} characters")
            body = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = getattr(error, "msg", None) or str(error)
            raise ConditionError(f"--where {text[:80]!r}: {reason}; wanted {WANTED}") from error
        _check(body, text)
        names = frozenset(node.id for node in ast.walk(body) if isinstance(node, ast.Name))
        return cls(text.strip(), names, body)

    def check_names(self, known: Collection[str]) -> None:
        """Refuse a name that no episode has.

        Raises:
            ConditionError: It names close ones.
        """
        for name in sorted(self.names - set(known)):
            hint = close_or_all(name, sorted(known))
            raise ConditionError(f"--where {self.text!r}: no episode has {name!r}{hint}")

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Return True if the condition holds; a fact that this episode lacks is None, which is less than nothing.

        Raises:
            ConditionError: Values of different kinds are compared by size.
        """
        return bool(self._value(self._body, facts))

    def _value(self, node: ast.expr, facts: Mapping[str, Any]) -> Any:
        found: Any = None
        match node:
            case ast.Constant():
                found = node.value
            case ast.Name():
                found = facts.get(node.id)
            case ast.List() | ast.Tuple():
                found = [self._value(one, facts) for one in node.elts]
            case ast.Attribute() | ast.Subscript():
                key = node.attr if isinstance(node, ast.Attribute) else self._value(node.slice, facts)
                several = self._value(node.value, facts)
                found = several.get(key) if isinstance(several, Mapping) else None
            case ast.UnaryOp():
                value = self._value(node.operand, facts)
                found = not value if isinstance(node.op, ast.Not) else -value
            case ast.BoolOp():
                decides = isinstance(node.op, ast.Or)
                found = any(bool(self._value(one, facts)) == decides for one in node.values) == decides
            case ast.Compare():
                found = self._compare(node, facts)
        return found

    def _compare(self, node: ast.Compare, facts: Mapping[str, Any]) -> bool:
        left = self._value(node.left, facts)
        for kind, expression in zip(node.ops, node.comparators, strict=True):
            right = self._value(expression, facts)
            ordered = isinstance(kind, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
            if ordered and (left is None or right is None):
                return False
            try:
                if not COMPARISONS[type(kind)](left, right):
                    return False
            except TypeError as error:
                raise ConditionError(f"--where {self.text!r}: {ast.unparse(node)}: {error}") from error
            left = right
        return True


PLAIN = (ast.Name, ast.Load, ast.List, ast.Tuple, ast.BoolOp, ast.And, ast.Or, ast.Not, ast.USub, ast.Compare)


def _check(node: ast.expr, text: str) -> None:
    """Refuse a syntax tree with anything but what `Condition` interprets."""
    for one in ast.walk(node):
        fine = isinstance(one, PLAIN)
        if isinstance(one, ast.Constant):
            fine = one.value is None or isinstance(one.value, bool | int | float | str)
        elif isinstance(one, ast.UnaryOp):
            number = isinstance(one.operand, ast.Constant) and type(one.operand.value) in (int, float)
            fine = isinstance(one.op, ast.Not) or (isinstance(one.op, ast.USub) and number)
        elif isinstance(one, ast.Attribute):
            fine = isinstance(one.value, ast.Name)
        elif isinstance(one, ast.Subscript):
            key = one.slice.value if isinstance(one.slice, ast.Constant) else None
            fine = isinstance(one.value, ast.Name) and isinstance(key, str)
        elif isinstance(one, ast.cmpop):
            fine = type(one) in COMPARISONS
        if not fine:
            found = ast.unparse(one) if isinstance(one, ast.expr) else type(one).__name__
            raise ConditionError(f"--where {text[:80]!r}: found {found[:60]!r}, wanted {WANTED}")
