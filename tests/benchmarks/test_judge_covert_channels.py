"""The benchmark of covert channels, and that those which are closed say nothing."""

from __future__ import annotations

import pytest

from benchmarks import judge_covert_channels as channels
from marft_envs.sandbox import Judge


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("docker", marks=(pytest.mark.docker, pytest.mark.long)),
        pytest.param("bubblewrap", marks=(pytest.mark.bubblewrap, pytest.mark.long)),
        "landlock",
    ],
)
def test_what_is_cached_and_what_was_counted_tells_a_later_submission_nothing(backend):
    with Judge(backend, 1, self_test=False) as judge:
        cached = channels.measure(judge, backend, "page cache", "submissions", rounds=2)
        assert cached.bits < 24  # it was 47 of 48; a guess is 0, give or take 7
        if backend != "landlock":  # there the ids are the machine's
            words = ("0", "0", "1100100")  # the first one is built, which takes ids too
            looks = [channels._play(judge, "process ids", "submissions", word) for word in words][1:]
            assert len({last[0] - first[0] for first, _, last in looks}) == 1


def test_bits_are_read_back_from_what_was_seen():
    decode = channels._decoder("process ids", *[[[10.0], [], [12.0]]] * 2)
    assert decode([100.0], [], [102.0 + 5]) == [0, 0, 0, 0, 0, 1, 0, 1]
    slow = [1.0 if place % 2 else 9.0 for place in range(48)]
    assert channels._decoder("page cache")([], [], slow) == [1, 0] * 24
    assert channels._decoder("names looked up")([], slow) == [0, 1] * 24
