"""Test inputs and validator of `late_train`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _late(rng: Random, top: int) -> str:
    return lines(f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}", rng.randint(0, top))


def small(rng: Random) -> str:
    """Generate a time and at most two hours."""
    return _late(rng, 120)


def tests(rng: Random) -> Iterator[str]:
    """Yield whole hours and days, midnight, and long delays."""
    yield lines("00:00", 0)
    yield lines("23:59", 1)
    yield lines("12:30", 1440)
    yield lines("07:05", 60)
    yield lines("00:00", 10**9)
    yield lines("23:59", 10**9)
    for top in (60, 600, 1500, 5000, 10**6):
        yield _late(rng, top)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.word("([01][0-9]|2[0-3]):[0-5][0-9]")
    read.integer(0, 10**9)
