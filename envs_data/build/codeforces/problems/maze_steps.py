"""Test inputs and validator of `maze_steps`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _maze(rng: Random, h: int, w: int, walls: float) -> str:
    cells = ["#" if rng.random() < walls else "." for _ in range(h * w)]
    start, end = rng.sample(range(h * w), 2)
    cells[start], cells[end] = "S", "E"
    return lines([h, w], *("".join(cells[i * w : (i + 1) * w]) for i in range(h)))


def small(rng: Random) -> str:
    """Generate a maze of at most four by four."""
    return _maze(rng, rng.randint(1, 4), rng.randint(2, 4), 0.3)


def tests(rng: Random) -> Iterator[str]:
    """Yield lanes, serpentines, open fields and random mazes."""
    yield lines([1, 2], "SE")
    yield lines([2, 1], "E", "S")
    yield lines([3, 3], "S.#", ".#.", "#.E")
    yield lines([4, 6], "S.....", "......", "......", ".....E")
    yield _maze(rng, 9, 9, 0.25)
    yield _maze(rng, 30, 40, 0.35)
    yield _maze(rng, 120, 120, 0.2)
    serpentine = [("." * 120, "#" * 119 + ".", "." * 120, "." + "#" * 119)[i % 4] for i in range(119)]
    serpentine[0] = "S" + serpentine[0][1:]
    serpentine[118] = "E" + serpentine[118][1:]
    yield lines([119, 120], *serpentine)
    yield lines([120, 120], "S" + "." * 119, *["." * 120] * 118, "." * 119 + "E")


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    h, w = read.ints(2, 1, 120)
    cells = "".join(read.grid(h, w, ".#SE"))
    read.check(cells.count("S") == cells.count("E") == 1, "wanted one S and one E")
