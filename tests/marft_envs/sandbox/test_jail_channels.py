"""Covert channels between programs other than files and processes: caches, counters, timestamps."""

from __future__ import annotations

import ctypes
import mmap
import os

import pytest

from marft_envs.sandbox.host_machine import find_runtime, find_shown, find_tools
from marft_envs.sandbox.jail.runner import PIDS_PER_SUBMISSION, PidLeveller
from marft_envs.sandbox.jail.spawn import ForkSpawner
from marft_envs.sandbox.local_runner import landlock_options, runtime_options
from tests.marft_envs.sandbox.jail_client import CARRIERS, FIRST_UID, ROOT, JailClient, needs_landlock, open_client


@pytest.fixture(scope="module", params=CARRIERS)
def jail(request):
    yield from open_client(request.param)


def _num_cached(path: str) -> int:
    """Return how many pages of a file are in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as pages:
        seen = (ctypes.c_ubyte * (-(-len(pages) // mmap.PAGESIZE)))()
        start = ctypes.addressof(place := ctypes.c_char.from_buffer(pages))
        failed = libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(pages)), seen)
        del place
        assert not failed
        return sum(byte & 1 for byte in seen)


NUM_PAGES = 64
EVICT = {
    "fadvise": "os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)",
    "pageout": "pages = mmap.mmap(file, 0, prot=mmap.PROT_READ); pages.read(); pages.madvise(21)",
    "cold": "pages = mmap.mmap(file, 0, prot=mmap.PROT_READ); pages.read(); pages.madvise(20)",
}
WARM = {
    "fadvise": "os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)",
    "willneed": "mmap.mmap(file, 0, prot=mmap.PROT_READ).madvise(mmap.MADV_WILLNEED)",
    "populate": "mmap.mmap(file, 0, prot=mmap.PROT_READ).madvise(22)",
}


@pytest.fixture
def shared(jail):
    """A file that programs may read, on the disk."""
    path = f"{jail.box}/shared"
    with open(path, "wb") as file:
        file.write(os.urandom(NUM_PAGES * mmap.PAGESIZE))
        os.fdatasync(file.fileno())  # `os.fsync` waits for nothing in tests
    os.chmod(path, 0o644)
    return path


def _do(jail, path: str, what: str) -> None:
    result = jail.python(f"import mmap, os\nfile = os.open({path!r}, os.O_RDONLY)\n{what}\nprint('done')")
    assert result.stdout == b"done\n", result.stderr  # an honest program may give advice


@pytest.mark.parametrize("way", EVICT)
def test_no_advice_takes_a_page_out_of_the_cache(jail, shared, way):
    _do(jail, shared, EVICT[way])
    assert _num_cached(shared) == NUM_PAGES


@pytest.mark.parametrize("way", WARM)
def test_no_advice_puts_a_page_into_the_cache(jail, shared, way):
    with open(shared, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if _num_cached(shared):
        pytest.skip("the files of this folder are in memory only")
    _do(jail, shared, WARM[way])
    assert _num_cached(shared) == 0


def _options() -> list[str]:
    shown, user = find_shown(find_tools()), ["--uids", f"{FIRST_UID}:{FIRST_UID + 3}"] if ROOT else []
    runtime = runtime_options(find_runtime(find_tools()["python"]), shown.hidden)
    return ["--isolation", "landlock", *landlock_options(shown), *runtime, *user]


@needs_landlock
def test_a_run_reads_what_the_interpreter_needs_and_that_is_cached_before():
    """Each page that a program may read, and nobody has read yet, is a bit that it may leave."""
    runtime = find_runtime(find_tools()["python"])
    module = next(f"{path}/turtle.py" for path in runtime if os.path.exists(f"{path}/turtle.py"))
    with open(module, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if os.access(module, os.W_OK):
        os.utime(module, ns=(0, os.stat(module).st_mtime_ns))  # last read long ago: the next read would leave a date
    with JailClient("landlock", options=_options()) as jail:
        jail.hello()
        read = os.stat(module).st_atime_ns
        assert _num_cached(module) == -(-os.path.getsize(module) // mmap.PAGESIZE)
        for path, expected in ((module, b"read\n"), ("/usr/bin/env", b""), ("/usr/include/stdio.h", b"")):
            assert jail.python(f"open({path!r}, 'rb').read(); print('read')").stdout == expected, path
        assert os.stat(module).st_atime_ns == read


class _Counter:
    """Hands out process ids."""

    def __init__(self) -> None:
        self.last = 7

    def take_pid(self) -> int:
        self.last += 1
        return self.last


@pytest.mark.parametrize("used", [0, 1, 5, 200, PIDS_PER_SUBMISSION - 1])
def test_the_next_submission_begins_at_the_same_process_id_whatever_one_did(used):
    counter = _Counter()
    pids = PidLeveller(counter)
    for turn in (1, 2):
        counter.last += used
        pids.level()
        assert counter.last == 8 + turn * PIDS_PER_SUBMISSION


def test_a_submission_that_used_more_process_ids_than_that_takes_the_jail_with_it():
    counter = _Counter()
    pids = PidLeveller(counter)
    counter.last += PIDS_PER_SUBMISSION
    with pytest.raises(OSError, match="another jail is needed"):
        pids.level()
    counter = _Counter()
    pids = PidLeveller(counter)
    counter.last = 3  # it has begun again
    with pytest.raises(OSError, match="another jail is needed"):
        pids.level()


def test_taking_an_id_leaves_no_process():
    first = ForkSpawner().take_pid()
    assert not os.path.exists(f"/proc/{first}")
