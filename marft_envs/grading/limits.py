"""Bounds of the grader, each with its reason; an answer beyond a bound is rejected in bounded time."""

from __future__ import annotations

MAX_ANSWER_CHARS = 2_000  # the longest gold of MATH has 160; keeps every linear scan far below a millisecond
MAX_NESTED_BOXES = 4  # boxes around the whole answer; each is one more scan
MAX_TOKENS = 800  # a long legitimate matrix or list; bounds the parser's loop
MAX_NODES = 400  # bounds one evaluation: 400 operations of a few microseconds each
MAX_STEPS = 4_000  # parser steps; a legitimate answer of MAX_TOKENS tokens takes at most three per token
MAX_DEPTH = 60  # the parser uses about eight Python frames per level; the stack holds a thousand
MAX_BITS = 20_000  # exact integers up to about 6,000 digits (2^20000, 2000!); a product takes microseconds
MAX_EXPONENT = 1_000_000  # larger powers are never answers, and exp() of them needs that many digits
MAX_FACTORIAL = 2_000  # 2000! fits MAX_BITS
MAX_SET_ITEMS = 64  # matching two unordered lists compares at most 64 * 64 pairs
MAX_COMPARISONS = 300  # scalar comparisons per pair of answers; bounds lists of long expressions
MAX_SYMBOLIC_CHARS = 1_000  # sympy's parsers are superlinear; 1,000 characters parse within the deadline
SYMBOLIC_CPU_S = 3  # kernel limit; measured useful work: 0.15 s at p99, 1.4 s at most
SYMBOLIC_WALL_S = 60.0  # wall time; large, so that verdicts do not depend on the load of the machine
SYMBOLIC_MEMORY_BYTES = 1 << 30  # kernel limit; a warm worker takes 60 MiB


class LimitExceededError(Exception):
    """An answer exceeds one of the bounds of this module."""


class NotReadableError(Exception):
    """The text is not in the grammar of answers, or an expression has no value."""
