"""Equivalence of two answer trees: True, False, or None if undecided.

Comparison is exact: a rounded decimal differs from a surd. Lists are unordered, tuples are ordered, and
brackets matter. A unit may be absent but must not conflict. A factor of 100 is ignored only next to a percent sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import takewhile

from marft_envs.grading.evaluation import NUM_POINTS, components, evaluate, real, sample_point, variables
from marft_envs.grading.expression import Node, exact_value, is_scalar
from marft_envs.grading.limits import MAX_COMPARISONS, MAX_SET_ITEMS, LimitExceededError, NotReadableError
from marft_envs.grading.number_comparison import measured, same_scalar, words_of
from marft_envs.grading.real_sets import real_set, same_real_set
from marft_envs.grading.words import negates, read_words

_APPROXIMATION = Fraction(1, 100)  # largest relative error for A ≈ B to count as rounding
_COMPUTATIONS = frozenset({"add", "mul", "div", "pow"})
_DIRECTION = {"<": 1, "<=": 1, ">": -1, ">=": -1}


def compare(first: Node, second: Node) -> bool | None:
    """Compare two trees: True, False, or None if undecided.

    Raises:
        NotReadableError: A part has no value.
        LimitExceededError: Beyond the bounds.
    """
    return _Comparison().equal(first, second)


class _Comparison:
    """One comparison with a budget of `MAX_COMPARISONS` calls of `equal`."""

    def __init__(self) -> None:
        self.left = MAX_COMPARISONS

    def equal(self, first: Node, second: Node) -> bool | None:
        """Compare two trees: as numbers, as sets of real numbers, or as structures."""
        self.left -= 1
        if self.left < 0:
            raise LimitExceededError(f"more than {MAX_COMPARISONS} comparisons")
        if first == second:
            return True
        one, other = exact_value(first), exact_value(second)
        if one is not None and other is not None:
            return one == other
        first, second = expanded(first), expanded(second)
        if is_scalar(first) and is_scalar(second):
            return same_scalar(first, second)
        kinds = {first.kind, second.kind}
        # Two tuples may be points, and two lists or sets of elements are compared one by one.
        if kinds != {"tuple"} and not ("set" in kinds and kinds <= {"set", "list"}):
            try:
                one_set = real_set(first)
                other_set = real_set(second) if one_set is not None else None
                if one_set is not None and other_set is not None:
                    return same_real_set(one_set, other_set)
            except NotReadableError:
                pass
        return self.same_structure(first, second)

    def same_structure(self, first: Node, second: Node) -> bool | None:
        """Compare by the rule for the kinds of the trees; without one compare a part that stands for its tree."""
        for one, other in ((first, second), (second, first)):
            rule = _RULES.get((one.kind, other.kind))
            if rule:
                return rule(self, one, other)
        for one, other in ((first, second), (second, first)):
            parts = self.stand_ins(one, other)
            if parts:
                return any(self.equal(part, other) for part in parts)
        return None if _computes_matrix(first) or _computes_matrix(second) else False

    def stand_ins(self, node: Node, other: Node) -> Sequence[Node]:
        """Return the parts of a tree that may be its value in comparison with a tree of another kind."""
        parts: Sequence[Node] = ()
        match node.kind:
            case "choice":  # (C) 12: its label or its value
                parts = node.args
            case "given":
                parts = node.args[:1] if _states_domain(*node.args) else ()
            case "rel":
                value = self.assigned_value(node, other)
                parts = () if value is None else (value,)
            case "list":  # "1/2 or 0.5": equal values
                parts = node.args[:1] if node.name == "or" and len(self.distinct(node.args)) == 1 else ()
            case "ratio":
                is_quotient = is_scalar(other) and len(node.args) == 2 and node.name in ("", "clock")
                parts = (Node("div", node.args),) if is_quotient else ()  # 5:05 pm is a time alone
            case "text":  # a word; its letters without \text were read as a product named after them
                is_named = other.kind in ("mul", "var", "const") and other.name.lower() == node.name
                parts = (other,) if other.name and is_named else ()
        return parts

    # ------------------------------------------------------------------ lists, matrices, ratios

    def ordered(self, first: Sequence[Node], second: Sequence[Node]) -> bool | None:
        """Compare element by element."""
        if len(first) != len(second):
            return False
        verdicts = []
        for one, other in zip(first, second, strict=True):
            verdict = self.equal(one, other)
            if verdict is False:
                return False
            verdicts.append(verdict)
        return None if None in verdicts else True

    def same_places(self, first: Sequence[Node], second: Sequence[Node]) -> bool | None:
        """Compare coordinates or cells, which are not counted things: words beside one of them are not dropped."""
        return list(map(_counted, first)) == list(map(_counted, second)) and self.ordered(first, second)

    def unordered(self, first: Sequence[Node], second: Sequence[Node]) -> bool | None:
        """Match each element with an equal one of the other side that is not matched yet."""
        if len(first) != len(second):
            return False
        if len(first) > MAX_SET_ITEMS:
            raise LimitExceededError(f"more than {MAX_SET_ITEMS} elements")
        rest = list(second)
        undecided = False
        for one in first:
            verdicts = []
            for place, other in enumerate(rest):
                verdict = self.equal(one, other)
                if verdict:
                    del rest[place]
                    break
                verdicts.append(verdict)
            else:
                if None not in verdicts:
                    return False
                undecided = True
        return None if undecided else True

    def distinct(self, items: Sequence[Node]) -> list[Node]:
        """Return the elements without repetitions."""
        if len(items) > MAX_SET_ITEMS:
            raise LimitExceededError(f"more than {MAX_SET_ITEMS} elements")
        kept: list[Node] = []
        for item in items:
            if not any(self.equal(item, other) for other in kept):
                kept.append(item)
        return kept

    def same_list(self, first: Node, second: Node) -> bool | None:
        """Compare two lists or sets; repetitions count only in lists of anything but points."""
        if "set" in (first.kind, second.kind) or any(item.kind == "tuple" for item in first.args):
            return self.unordered(self.distinct(first.args), self.distinct(second.args))
        one, other = ({label for item in node.args if (label := _label(item))} for node in (first, second))
        if (len(one) > 1) != (len(other) > 1) and not (one and other):
            return self.ordered(first.args, second.args)  # x=1, y=2 versus 1, 2
        return self.unordered(first.args, second.args)

    def same_tuple(self, first: Node, second: Node) -> bool | None:
        """Compare two tuples; the brackets of a pair matter, as it may be an interval."""
        is_pair = len(first.args) == 2
        return False if is_pair and first.name != second.name else self.same_places(first.args, second.args)

    def same_tuple_as_list(self, first: Node, second: Node) -> bool | None:
        """Compare a tuple with a list, unless the tuple is an interval."""
        is_interval = len(first.args) == 2 and first.name != "()"
        return False if is_interval else self.ordered(first.args, second.args)

    def same_matrix(self, first: Node, second: Node) -> bool | None:
        """Compare two matrices of the same shape cell by cell."""
        if [len(row.args) for row in first.args] != [len(row.args) for row in second.args]:
            return False
        return self.same_places(_cells(first), _cells(second))

    def same_matrix_as_tuple(self, matrix: Node, other: Node) -> bool | None:
        """Compare a matrix with a tuple of its rows, or a vector with its components."""
        if other.args and all(item.kind == "tuple" for item in other.args):
            rows = tuple(Node("row", item.args) for item in other.args)
            return self.same_matrix(matrix, Node("matrix", rows))
        if len(matrix.args) == 1 or all(len(row.args) == 1 for row in matrix.args):
            return self.ordered(_cells(matrix), other.args)
        return False

    def same_ratio(self, first: Node, second: Node) -> bool | None:
        """Compare two ratios or times of day: a:b:c = d:e:f if a*e = d*b and a*f = d*c."""
        if first.name and second.name:
            return _same_time(first, second)
        if len(first.args) != len(second.args):
            return False
        head, other_head = first.args[0], second.args[0]
        undecided = False
        for one, other in zip(first.args[1:], second.args[1:], strict=True):
            verdict = self.equal(Node("mul", (head, other)), Node("mul", (other_head, one)))
            if verdict is False:
                return False
            if verdict is None:
                undecided = True
        return None if undecided else True

    # ------------------------------------------------------------------ relations

    def assigned_value(self, relation: Node, other: Node) -> Node | None:
        r"""Return the value that a relation asserts, for comparison with an answer that is not a relation.

        ``x = 5`` gives 5, ``x \in S`` gives S, ``2 + 3 = 5`` (if true) gives 5, ``22/7 \approx 3.14`` gives either.
        """
        operators = relation.name.split()
        first, last = relation.args[0], relation.args[-1]
        if operators == ["in"]:
            return last if _is_name(first) else None
        if any(operator not in ("=", "approx") for operator in operators):
            return None
        if first.kind == "text" and is_scalar(other) and not _names_counted(first.name, other):
            return None
        parts = relation.args[len(_names(relation)) :]
        if operators[-1] == "approx" and len(parts) > 1:
            *exact, rounded = parts
            if not _is_rounding(exact[-1], rounded) or not self.all_equal(exact):
                return None
            return exact[-1] if self.equal(exact[-1], other) else rounded
        return parts[-1] if self.all_equal(parts) else None

    def all_equal(self, parts: Sequence[Node]) -> bool:
        """True if all expressions are surely equal to the last."""
        return all(self.equal(part, parts[-1]) for part in parts[:-1])

    def same_relation(self, first: Node, second: Node) -> bool | None:
        """Compare two relations; return None if undecided."""
        one, other = first.name.split(), second.name.split()
        if "equiv" in one and one == other:
            return _same_congruence(first, second)
        if set(one) | set(other) <= {"=", "approx"}:
            return self.same_equation(first, second)
        if one == other and len(one) == 1 and one[0] in _STATEMENTS:
            return _STATEMENTS[one[0]](self, first, second)
        if len(one) == len(other) == 1 and one[0] in _DIRECTION and other[0] in _DIRECTION:
            return _same_inequality(first, second)
        return None if set(one) & set(other) else False

    def same_equation(self, first: Node, second: Node) -> bool | None:
        """Compare the values of assignments to the same name, otherwise the curves: y = 2x and 2x - y = 0."""
        head, other_head = first.args[0], second.args[0]
        if is_assignment(first) and is_assignment(second):
            if len(first.args) > 2 or len(second.args) > 2:
                return self.same_chain(first, second)
            if head == other_head or {head.kind, other_head.kind} == {"apply", "var"}:
                return self.equal(first.args[-1], second.args[-1])
            if head.kind == other_head.kind == "tuple":
                return self.equal(head, other_head) and self.equal(first.args[-1], second.args[-1])
        if len(first.args) != 2 or len(second.args) != 2:
            return self.equal(first.args[-1], second.args[-1]) and self.equal(head, other_head)
        # 2/3 ≈ 0.67 is a value, and no curve: the differences of any two numbers are in some ratio.
        if not any(map(_is_named, (*first.args, *second.args))):
            one, other = self.assigned_value(first, other_head), self.assigned_value(second, head)
            return one is not None and other is not None and self.equal(one, other)
        factor = _constant_factor(first, second)
        return None if factor is None else factor != 0

    def same_chain(self, first: Node, second: Node) -> bool | None:
        """Compare the names and the values of ``x = 2 + 3 = 5`` and ``x = 5``.

        Working with numbers between name and value is not graded. Any other part must equal the value.
        """
        values = []
        for chain, other in ((first, second), (second, first)):
            steps = chain.args[len(_names(chain)) : -1]
            value = self.assigned_value(chain, other.args[-1])
            if value is None and not all(step.kind in _COMPUTATIONS and not variables(step) for step in steps):
                return False
            values.append(value or chain.args[-1])
        return set(_names(first)) == set(_names(second)) and self.equal(*values)


_STATEMENTS: dict[str, Callable[[_Comparison, Node, Node], bool | None]] = {  # by the sign of both relations
    "in": lambda self, first, second: self.equal(first.args[1], second.args[1]),
    "to": lambda self, first, second: self.ordered(first.args, second.args),
    **dict.fromkeys(("cong", "sim"), lambda self, first, second: _same_correspondence(first, second)),
}
_RULES: dict[tuple[str, str], Callable[[_Comparison, Node, Node], bool | None]] = {  # by the kinds of the two trees
    ("list", "list"): _Comparison.same_list,
    ("list", "set"): _Comparison.same_list,
    ("set", "set"): _Comparison.same_list,
    ("tuple", "tuple"): _Comparison.same_tuple,
    ("tuple", "list"): _Comparison.same_tuple_as_list,
    ("matrix", "matrix"): _Comparison.same_matrix,
    ("matrix", "tuple"): _Comparison.same_matrix_as_tuple,
    ("matrix", "list"): _Comparison.same_matrix_as_tuple,
    ("ratio", "ratio"): _Comparison.same_ratio,
    ("rel", "rel"): _Comparison.same_relation,
    ("choice", "choice"): lambda self, first, second: self.ordered(first.args, second.args),
    ("row", "row"): lambda self, first, second: self.ordered(first.args, second.args),
    ("cases", "cases"): lambda self, first, second: self.unordered(first.args, second.args),
    ("given", "given"): lambda self, first, second: self.ordered(first.args, second.args),
    ("side", "side"): lambda self, first, second: first.name == second.name and self.ordered(first.args, second.args),
    ("text", "text"): lambda self, first, second: first.name == second.name,
}


# ---------------------------------------------------------------------- signs ±


def expanded(node: Node) -> Node:
    """Replace an expression with ± or ∓ by the list of its two values.

    All upper signs give the first value, all lower signs the second.
    """
    if not _has_sign(node):
        return node
    if node.kind in ("list", "set"):
        flat: list[Node] = []
        for item in map(expanded, node.args):
            flat.extend(item.args if item.kind == "list" else (item,))
        return node._replace(args=tuple(flat))
    if not is_scalar(node) and node.kind not in ("tuple", "rel"):
        return node
    return Node("list", (_with_sign(node, upper=True), _with_sign(node, upper=False)))


def _has_sign(node: Node) -> bool:
    return node.kind in ("pm", "mp") or any(map(_has_sign, node.args))


def _with_sign(node: Node, upper: bool) -> Node:
    args = tuple(_with_sign(child, upper) for child in node.args)
    if node.kind in ("pm", "mp"):
        is_plus = upper == (node.kind == "pm")
        return Node("add", (args[0], args[1] if is_plus else Node("neg", (args[1],))))
    return node._replace(args=args)


# ---------------------------------------------------------------------- parts of structures


def _computes_matrix(node: Node) -> bool:
    """True if a matrix is part of a sum or product; its value is left to the symbolic tier."""
    return is_scalar(node) and any(child.kind == "matrix" or _computes_matrix(child) for child in node.args)


def _states_domain(answer: Node, condition: Node) -> bool:
    """True if a condition only tells which values the variables of an answer may have."""
    names = variables(answer)
    match condition.kind:
        case "rel":
            is_domain = not {"=", "approx"} & set(condition.name.split())
        case "text":
            is_domain = not read_words(condition.name.split()).is_polar
        case "quantity":
            is_domain = not words_of(measured(condition)[1]).is_polar
        case _:
            is_domain = condition.kind == "var"
    return is_domain and bool(names) and variables(condition) <= names


def _cells(matrix: Node) -> list[Node]:
    return [cell for row in matrix.args for cell in row.args]


def _same_time(first: Node, second: Node) -> bool:
    """Compare two times of day; 3:45 is also 3:45 pm."""
    (time, half), (other_time, other_half) = _clock(first), _clock(second)
    if time == other_time:
        return True
    if half == other_half or (half and other_half):
        return False
    bare_hour = other_time[0] if half else time[0]
    same_hour = (time[0] - other_time[0]) % 12 == 0
    return bare_hour <= 12 and same_hour and time[1:] == other_time[1:]


def _clock(node: Node) -> tuple[list[Fraction], str]:
    """Return hour, minute and second of a time of day on the 24-hour clock, and "am", "pm" or ""."""
    half = node.name.removeprefix("clock").strip()
    time = [part.value or Fraction(0) for part in node.args]
    if half:
        time[0] = time[0] % 12 + (12 if half == "pm" else 0)
    return time + [Fraction(0)] * (3 - len(time)), half


def is_assignment(node: Node) -> bool:
    """True if a node is ``x = value`` with a name on the left."""
    return node.kind == "rel" and node.name.split()[0] in ("=", "approx") and _is_name(node.args[0])


def _label(item: Node) -> str:
    """Return what an element of a list names or counts; "" if it is a bare value."""
    if is_assignment(item):
        return item.args[0].name
    return _counted(item)


def _counted(item: Node) -> str:
    return " ".join(words_of(measured(item)[1]).nouns) if item.kind == "quantity" else ""


def _names_counted(name: str, amount: Node) -> bool:
    """True if the name in "rabbits: 12" is what an amount counts, or the amount has no words."""
    counted = words_of(measured(amount)[1]).nouns
    return not counted or counted == read_words((), name.split()).nouns


def _is_name(node: Node) -> bool:
    """True if the left side only names the value on the right: x, f(x), AB, (x, y), a+b, P(A)."""
    if node.kind in ("var", "apply", "call"):
        return True
    if node.kind == "series":
        return _is_name(node.args[-1])  # the limit of f(x)
    if node.kind == "text":
        return not negates(node.name)
    if node.kind in ("tuple", "ratio"):
        return all(item.kind == "var" for item in node.args)
    return is_scalar(node) and bool(variables(node)) and not _has_number_or_words(node)


def _names(relation: Node) -> tuple[Node, ...]:
    """Return the names at the left of a chain of equations; its last part is their value."""
    return tuple(takewhile(_is_name, relation.args[:-1]))


def _is_named(node: Node) -> bool:
    """True if a variable, a function or a word is in a tree, so that it is no number."""
    return node.kind in ("var", "call") or not is_scalar(node) or any(map(_is_named, node.args))


def _has_number_or_words(node: Node) -> bool:
    return node.kind in ("num", "quantity") or any(map(_has_number_or_words, node.args))


def _same_correspondence(first: Node, second: Node) -> bool:
    """True if the same vertices of two triangles belong together: ABC and DEF, or FED and CBA."""
    pairs, other_pairs = (set(zip(*(part.args for part in node.args), strict=True)) for node in (first, second))
    return pairs == other_pairs or pairs == {pair[::-1] for pair in other_pairs}


def _same_congruence(first: Node, second: Node) -> bool | None:
    """Compare x ≡ a (mod m) with x ≡ b (mod n)."""
    if len(first.args) != 3 or len(second.args) != 3:
        return None
    rest, modulus = (evaluate(part, {}) for part in first.args[1:])
    other_rest, other_modulus = (evaluate(part, {}) for part in second.args[1:])
    if modulus != other_modulus or modulus == 0:
        return False
    try:
        return bool((rest - other_rest) % modulus == 0)
    except TypeError as error:  # a fraction with a real number, or a complex number
        raise NotReadableError("a congruence of irrational numbers") from error


def _same_inequality(first: Node, second: Node) -> bool | None:
    factor = _constant_factor(first, second)
    if factor is None:
        return None
    if ("=" in first.name) != ("=" in second.name):
        return False
    return factor * _DIRECTION[first.name] * _DIRECTION[second.name] > 0


def _constant_factor(first: Node, second: Node) -> int | None:
    """Return the sign of c if left - right of one relation is c times that of the other.

    Return 0 if the variables differ, and None if there is no such c. None does not imply that the relations differ.
    """
    if not all(is_scalar(part) for part in (*first.args, *second.args)):
        return None
    names = variables(first)
    if names != variables(second):
        return 0
    ratios = []
    for index in range(NUM_POINTS):
        point = sample_point(names, index)
        differences = (Node("add", (left, Node("neg", (right,)))) for left, right in (first.args, second.args))
        for one, other in zip(*(components(evaluate(node, point)) for node in differences), strict=False):
            if one == 0 or other == 0:
                return None
            ratios.append(real(one) / real(other))
    spread = max(abs(ratio - ratios[0]) for ratio in ratios)
    if spread > abs(ratios[0]) * Fraction(1, 10**30) or getattr(ratios[0], "imag", 0) != 0:
        return None
    return 1 if ratios[0].real > 0 else -1


def _is_rounding(exact: Node, rounded: Node) -> bool:
    if not (is_scalar(exact) and is_scalar(rounded)) or variables(exact) or variables(rounded):
        return False
    try:
        one, other = evaluate(exact, {}), evaluate(rounded, {})
        distance, size = abs(real(one) - real(other)), abs(real(one))
    except NotReadableError:
        return False
    # 204 ≈ 205 is two numbers: 204 has no digit behind the last one of 205 that could be rounded away.
    if isinstance(one, Fraction) and isinstance(other, Fraction) and one != other:
        place = _last_place(other)
        if place is not None and ((one / place).denominator == 1 or abs(one - other) > place):
            return False
    return bool(distance <= size * real(_APPROXIMATION))


def _last_place(value: Fraction) -> Fraction | None:
    """Return the place of the last digit that is not 0: 1/100 of 3.14, 10 of 210; None for 0 and endless decimals."""
    num_decimals, rest = 0, value.denominator
    while rest % 10 == 0:
        num_decimals, rest = num_decimals + 1, rest // 10
    for prime in (2, 5):  # 1/2^n and 1/5^n have n decimals
        while rest % prime == 0:
            num_decimals, rest = num_decimals + 1, rest // prime
    if rest != 1 or value == 0:
        return None
    digits, num_zeros = value.numerator, 0
    while digits % 10 == 0:
        digits, num_zeros = digits // 10, num_zeros + 1
    return Fraction(10**num_zeros, 10**num_decimals)
