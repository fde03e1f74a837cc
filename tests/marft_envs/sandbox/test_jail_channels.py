"""What a program could leave for a later one outside files and processes: what is cached, counted, or dated."""

from __future__ import annotations

import ctypes
import mmap
import os

import pytest
from jail_client import CARRIERS, open_client


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
        os.fsync(file.fileno())
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
