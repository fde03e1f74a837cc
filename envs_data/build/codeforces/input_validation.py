"""Formatting and strict validation of problem inputs."""

import re
from collections.abc import Sequence


def lines(*rows: object) -> str:
    """Format rows as lines; the items of a list or tuple are joined by single blanks."""
    return "".join(f"{' '.join(map(str, row)) if isinstance(row, list | tuple) else row}\n" for row in rows)


class Reader:
    """Strict reader that checks the format of an input line by line, to the byte.

    Args:
        text: The whole input: lines that end with a newline, single blanks, no leading zeros or plus signs.

    Raises:
        ValueError: From every method, if the input violates the statement.
    """

    def __init__(self, text: str) -> None:
        if not text.isascii() or not text.endswith("\n"):
            raise ValueError("input: wanted ASCII that ends with a newline")
        self._lines = text.split("\n")[:-1]
        self._next = 0

    def line(self) -> str:
        """Return the next line without its newline."""
        if self._next == len(self._lines):
            raise ValueError(f"line {self._next + 1}: found the end, wanted a line")
        self._next += 1
        return self._lines[self._next - 1]

    def words(self, count: int, pattern: str) -> list[str]:
        """Return the `count` words of the next line; each must match the regular expression fully."""
        found = self.line().split(" ")
        self.check(len(found) == count, f"found {len(found)} words, wanted {count}")
        for word in found:
            self.check(re.fullmatch(pattern, word) is not None, f"found {word[:40]!r}, wanted {pattern}")
        return found

    def word(self, pattern: str) -> str:
        """Return the only word of the next line."""
        return self.words(1, pattern)[0]

    def row(self, *bounds: tuple[int, int]) -> list[int]:
        """Return the integers of the next line, each within its bounds (both inclusive)."""
        found = [int(word) for word in self.words(len(bounds), "0|-?[1-9][0-9]*")]
        for value, (low, high) in zip(found, bounds, strict=True):
            self.check(low <= value <= high, f"found {value}, wanted {low} to {high}")
        return found

    def ints(self, count: int, low: int, high: int) -> list[int]:
        """Return the `count` integers of the next line, each from `low` to `high`."""
        return self.row(*[(low, high)] * count)

    def integer(self, low: int, high: int) -> int:
        """Return the only integer of the next line, from `low` to `high`."""
        return self.ints(1, low, high)[0]

    def grid(self, rows: int, columns: int, cells: str) -> list[str]:
        """Return the next `rows` lines, each with `columns` characters from `cells`."""
        return [self.word(f"[{re.escape(cells)}]{{{columns}}}") for _ in range(rows)]

    def distinct(self, values: Sequence[object]) -> None:
        """Require that all values differ."""
        self.check(len(set(values)) == len(values), "found a repeated value, wanted all different")

    def check(self, condition: bool, what: str) -> None:
        """Raise an error with the location unless the condition holds."""
        if not condition:
            raise ValueError(f"line {self._next}: {what}")

    def end(self) -> None:
        """Require the end of the input."""
        if self._next != len(self._lines):
            raise ValueError(f"line {self._next + 1}: found {self._lines[self._next][:40]!r}, wanted the end")
