"""Test inputs and validator of `farm_paths`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _farm(rng: Random, h: int, w: int, share: float) -> str:
    cells = ["B" if rng.random() < share else "." for _ in range(h * w)]
    cells[0] = cells[-1] = "."
    return lines([h, w], *("".join(cells[i * w : (i + 1) * w]) for i in range(h)))


def small(rng: Random) -> str:
    """Generate a farm of at most four by four."""
    return _farm(rng, rng.randint(1, 4), rng.randint(1, 4), 0.25)


def tests(rng: Random) -> Iterator[str]:
    """Yield lanes, a wall, empty and random farms."""
    yield lines([1, 1], ".")
    yield lines([1, 5], ".....")
    yield lines([1, 5], "..B..")
    yield lines([3, 4], ".B..", "....", "....")
    yield lines([6, 6], "......", "......", "BBBBB.", "......", "......", "......")
    yield _farm(rng, 8, 8, 0.15)
    yield _farm(rng, 5, 60, 0.05)
    yield _farm(rng, 150, 150, 0.0)
    yield _farm(rng, 150, 140, 0.03)
    yield _farm(rng, 120, 150, 0.3)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    h, w = read.ints(2, 1, 150)
    cells = read.grid(h, w, ".B")
    read.check(cells[0][0] == cells[-1][-1] == ".", "wanted meadows at both ends")
