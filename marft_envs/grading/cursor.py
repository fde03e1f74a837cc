"""Token cursor with bounds on nodes, steps and nesting depth."""

from __future__ import annotations

from marft_envs.grading.expression import Node
from marft_envs.grading.limits import MAX_DEPTH, MAX_NODES, MAX_STEPS, LimitExceededError, NotReadableError
from marft_envs.grading.tokens import Token

_END = Token("end", "")


class Cursor:
    """Cursor over tokens from left to right; counts every node, step and level of nesting."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = (*tokens, _END, _END)  # padding: look-ahead needs no bounds check
        self.index = 0
        self.nodes = 0
        self.depth = 0
        self.steps = 0
        self.bars = 0

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
