"""The bounds of the grader, each with its reason; beyond one of them an answer is not graded, never hung."""

from __future__ import annotations

MAX_ANSWER_CHARS = 2_000  # the longest gold of MATH has 160; keeps every linear scan far below a millisecond
MAX_TOKENS = 800  # a long but honest matrix or list; bounds the parser's loop
MAX_NODES = 400  # bounds one evaluation: 400 operations of some microseconds
MAX_STEPS = 4_000  # of the parser: an honest answer of MAX_TOKENS tokens takes at most three a token
MAX_DEPTH = 60  # the parser takes about eight Python frames a level; the stack holds a thousand
MAX_BITS = 20_000  # exact integers up to about 6,000 digits (2^20000, 2000!); a product takes microseconds
MAX_EXPONENT = 1_000_000  # powers beyond it never are answers, and exp() of them needs that many digits
MAX_FACTORIAL = 2_000  # 2000! fits MAX_BITS
MAX_SET_ITEMS = 64  # matching two unordered lists compares at most 64 * 64 pairs
MAX_COMPARISONS = 300  # of scalars in one pair of answers: bounds lists of long expressions
MAX_SYMBOLIC_CHARS = 1_000  # sympy's parsers are superlinear: 1,000 characters still parse within the deadline
SYMBOLIC_CPU_S = 3  # kernel limit; useful work was seen to take 0.15 s at p99 and 1.4 s at most
SYMBOLIC_WALL_S = 60.0  # for what waits: on a busy machine a second of work takes many, and no verdict may depend on it
SYMBOLIC_MEMORY_BYTES = 1 << 30  # kernel limit; a warm worker takes 60 MiB


class LimitExceededError(Exception):
    """An answer is too large to grade: beyond one of the bounds of this module."""


class NotReadableError(Exception):
    """The text is not in the grammar of answers, or an expression has no value."""
