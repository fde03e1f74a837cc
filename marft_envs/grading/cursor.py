"""A cursor over tokens that counts nodes and levels of nesting."""

from __future__ import annotations

from marft_envs.grading.expression import Node
from marft_envs.grading.limits import MAX_DEPTH, MAX_NODES, MAX_STEPS, LimitExceededError, NotReadableError
from marft_envs.grading.tokens import Token

_END = Token("end", "")


class Cursor:
    """Reads tokens from left to right; every node and every level of nesting is counted."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = (*tokens, _END, _END)  # so that no look ahead needs a check
        self.index = 0
        self.nodes = 0
        self.depth = 0
        self.steps = 0
        self.bars = 0

    @property
    def next(self) -> Token:
        """The token to be read."""
        return self.tokens[self.index]

    def peek(self, offset: int) -> Token:
        """Return the token `offset` places ahead."""
        index = self.index + offset
        return self.tokens[index] if index < len(self.tokens) else _END

    def take(self, text: str) -> bool:
        """Pass a mark if it is the next token."""
        token = self.next
        if token.text == text and token.kind == "mark":
            self.index += 1
            return True
        return False

    def take_any(self) -> Token:
        """Pass the next token, whatever it is."""
        token = self.next
        if token.kind == "end":
            raise NotReadableError("unexpected end")
        self.index += 1
        return token

    def expect(self, text: str) -> None:
        """Pass a mark that must come."""
        if not self.take(text):
            raise NotReadableError(f"expected {text!r}, found {self.next.text!r}")

    def node(self, kind: str, *args: Node, name: str = "") -> Node:
        """Make and count a node."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise LimitExceededError(f"more than {MAX_NODES} terms")
        return Node(kind, args, None, name)

    def enter(self) -> None:
        """Count a level of nesting, and a step: no loop that reads elements or factors can be endless."""
        self.depth += 1
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise LimitExceededError(f"more than {MAX_STEPS} steps")
        if self.depth > MAX_DEPTH:
            raise LimitExceededError(f"nested deeper than {MAX_DEPTH}")
