"""Measure covert channels from one judged program to a later one: bits per round, per channel and backend.

    python -m benchmarks.judge_covert_channels [--backends docker,bubblewrap,landlock] [--rounds 6] [--json]

A round reads the channel, sends random bits and reads again, as three submissions or as three tests of one submission.
For "names looked up" there is no first read, since a lookup itself fills the cache. The decoded bits are compared with
the sent ones. A guess gets half of them right, so bits = 2 * right - sent, which is 0 for a closed channel. Bits per
second refer to the wall time of the rounds. To measure an earlier version of the judge, run this file with PYTHONPATH
set to its checkout.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from marft_envs.sandbox import Judge, Test

_BEGIN = r"""
#include <bits/stdc++.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
using namespace std;
static double us(chrono::steady_clock::time_point since) {
    return chrono::duration<double, micro>(chrono::steady_clock::now() - since).count();
}
static vector<string> files() {
    vector<string> found;
    for (string folder : {"/usr/lib/python3.11", "/usr/local/lib/python3.11", "/usr/lib/python3.13"}) {
        if (!found.empty() || access(folder.c_str(), R_OK)) continue;
        error_code error;
        for (auto &entry : filesystem::directory_iterator(folder, error))
            if (entry.path().extension() == ".py" && entry.file_size(error) + 1 > 16385) found.push_back(entry.path());
    }
    sort(found.begin(), found.end());
    return found;
}
int main() {
    string key, bits;
    cin >> key >> bits;  // bits are - where it looks
    bool looks = bits == "-";
"""
# Each program sends bits. To read, it prints one access time per bit or the value of a counter.
_PROGRAMS = {
    "page cache": r"""
    auto names = files();
    for (size_t i = 0; i < 48 && i < names.size(); i++) {
        int file = open(names[i].c_str(), O_RDONLY);
        char letter;
        iovec part = {&letter, 1};
        if (!looks && bits[i] == '1') posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        if (!looks) continue;
        double cached = preadv2(file, &part, 1, 8192, RWF_NOWAIT);
        auto start = chrono::steady_clock::now();
        bool whole = pread(file, &letter, 1, 8192) == 1;
        printf("%g\n", cached == 1 ? 0 : errno == EAGAIN ? 1e6 : whole ? us(start) : 0);
    }
}""",
    "names looked up": r"""
    struct stat found;
    string folder = filesystem::path(files().at(0)).parent_path();
    stat((folder + "/" + key).c_str(), &found);
    for (int i = 0; i < 48; i++) {
        string name = folder + "/" + key + to_string(i);
        auto start = chrono::steady_clock::now();
        if (looks || bits[i] == '1') stat(name.c_str(), &found);
        if (looks) printf("%g\n", us(start));
    }
}""",
    "process ids": r"""
    for (int left = looks ? 0 : stoi(bits, nullptr, 2); left--;) thread([] {}).join();
    printf("%d\n", getpid());
}""",
    "inode numbers": r"""
    int ends[2];
    struct stat found;
    for (int left = looks ? 0 : 16 * stoi(bits, nullptr, 2); left--; close(ends[0]), close(ends[1])) pipe(ends);
    if (pipe(ends) == 0 && fstat(ends[0], &found) == 0) printf("%ld\n", (long)found.st_ino);
}""",
    "socket cookies": r"""
    int ends[2];
    unsigned long cookie = 0;
    socklen_t size = sizeof cookie;
    for (int left = 1 + (looks ? 0 : stoi(bits, nullptr, 2)); left--; close(ends[0]), close(ends[1]))
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || getsockopt(ends[0], SOL_SOCKET, 57, &cookie, &size)) break;
    printf("%lu\n", cookie);
}""",
}
_STEPS = {"process ids": 1, "inode numbers": 16, "socket cookies": 1}  # counter increments per unit sent
_BETWEEN = ("submissions", "tests")


@dataclass(frozen=True)
class Row:
    """Result of one channel on one backend: bits sent per round, bits received above chance, and those per second."""

    backend: str
    between: str
    channel: str
    sent: int
    bits: float
    bits_per_s: float


def measure(judge: Judge, backend: str, channel: str, between: str, rounds: int, seed: int = 0) -> Row:
    """Measure the capacity of a channel over some rounds.

    Args:
        judge: Judge with one worker, so that all programs of a round run in the same place.
        backend: Name of the judge's backend.
        channel: Name of a channel in `CHANNELS`.
        between: Sender and reader are separate "submissions", or "tests" of one submission.
        rounds: Number of measured rounds, after two rounds without sent bits as calibration.
        seed: Seed of the random bits.
    """
    draw = random.Random(seed)
    num_bits = 8 if channel in _STEPS else 48
    decode = _decoder(channel, *(_play(judge, channel, between, "0" * num_bits) for _ in range(2)))
    right, start = [], time.perf_counter()
    for _ in range(rounds):
        sent = [draw.randrange(2) for _ in range(num_bits)]
        guess = decode(*_play(judge, channel, between, "".join(map(str, sent))))
        right.append(sum(a == b for a, b in zip(sent, guess, strict=False)))
    wall = time.perf_counter() - start
    # Guesses get half of the bits right; a channel without output decodes as zeros.
    bits = max(0.0, 2 * statistics.mean(right) - num_bits)
    return Row(backend, between, channel, num_bits, round(bits, 1), round(bits * rounds / wall, 1))


CHANNELS = tuple(_PROGRAMS)
_Look = Sequence[float]


def _play(judge: Judge, channel: str, between: str, sent: str) -> list[_Look]:
    """Play one round; return the readings, of which the last follows the sent bits."""
    source = _BEGIN + _PROGRAMS[channel]
    words = [sent, "-"] if channel == "names looked up" else ["-", sent, "-"]
    key = f"{time.time_ns()}x"  # new, so that no cache holds a lookup of it
    tests = [Test(f"{key} {word}\n".encode(), b"-") for word in words]
    parts = [[test] for test in tests] if between == "submissions" else [tests]
    results = [result for part in parts for result in judge.run(source, "c++17", part).tests]
    return [[float(word) for word in result.output.split()] for result in results]


def _decoder(channel: str, *idle: list[_Look]) -> Callable[..., list[int]]:
    """Return a function that decodes the readings of a round into bits, calibrated with idle rounds."""
    if channel not in _STEPS:

        def from_times(*looks: _Look) -> list[int]:
            # An evicted page is slow, a cached name is fast: split the sorted times at their largest relative gap.
            times = looks[-1]
            ordered = sorted(times)
            middle = [(b / max(a, 0.05), (a * b) ** 0.5) for a, b in itertools.pairwise(ordered[5:-5])]
            limit = max(middle)[1] if middle else 0
            return [int((value > limit) == (channel == "page cache")) for value in times]

        return from_times
    usual = statistics.median(looks[-1][0] - looks[0][0] if looks[0] else 0 for looks in idle)

    def from_counter(*looks: _Look) -> list[int]:
        grown = looks[-1][0] - looks[0][0] - usual if looks[0] and looks[-1] else 0
        value = min(255, max(0, round(grown / _STEPS[channel])))
        return [int(bit) for bit in f"{value:08b}"]

    return from_counter


def main() -> None:
    """Measure all channels and print them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--backends", default="docker,bubblewrap,landlock", help="separated by commas")
    parser.add_argument("--rounds", type=int, default=6, help="of each channel")
    parser.add_argument("--json", action="store_true", help="print raw numbers")
    arguments = parser.parse_args()
    rows = []
    for backend in arguments.backends.split(","):
        with Judge(backend, 1) as judge:
            for between in _BETWEEN:
                rows += [measure(judge, backend, name, between, arguments.rounds) for name in CHANNELS]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print("| backend | between | channel | bits sent a round | bits recovered | bits/s |\n|---|---|---|---:|---:|---:|")
    for row in rows:
        print("| " + " | ".join(str(value) for value in asdict(row).values()) + " |")


if __name__ == "__main__":
    main()
