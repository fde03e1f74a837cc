"""Tests that a jail shows the interpreter, the compiler and their libraries, and no other file of the machine."""

import itertools

import pytest

from marft_envs.sandbox.host_machine import find_shown
from marft_envs.sandbox.local_backends import _walls
from marft_envs.sandbox.local_runner import landlock_options

NEEDED = (
    "usr/bin/g++",
    "usr/include/stdio.h",
    "usr/lib/gcc/cc1plus",
    "usr/lib/x86_64-linux-gnu/libc.so.6",
    "usr/lib/python3.11/json.py",
    "usr/share/zoneinfo/UTC",
)
SECRET = (
    "usr/src/marft/answers",
    "usr/share/marft/answers",
    "usr/lib/marft/answers",
    "usr/lib/python3/dist-packages/answers",
    "usr/lib/python3.11/site-packages/answers",
    "usr/local/venv/answers",
    "usr/local/lib/python3.11/dist-packages/answers",
    "opt/answers",
    "home/answers",
)


@pytest.fixture
def root(tmp_path):
    for name in (*NEEDED, *SECRET):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "lib").symlink_to("usr/lib")
    return tmp_path


def shown_to_bubblewrap(root, path):
    words = itertools.pairwise(_walls(find_shown({}, root)))
    beneath = [kind for kind, place in words if kind in ("--ro-bind", "--tmpfs") and path.is_relative_to(place)]
    return beneath[-1:] == ["--ro-bind"]  # the last mount counts


def shown_to_landlock(root, path):
    words = landlock_options(find_shown({}, root))
    rules = zip(words[::2], words[1::2], strict=True)
    return any(kind == "--read" and path.is_relative_to(place) for kind, place in rules)


@pytest.mark.parametrize("flat", [False, True], ids=["Debian", "all libraries in one folder"])
@pytest.mark.parametrize("is_shown", [shown_to_bubblewrap, shown_to_landlock])
def test_what_is_needed_is_shown_and_what_is_beside_it_is_not(root, is_shown, flat):
    for number in range(100 * flat):
        (root / "usr" / "lib" / f"lib{number}.so.1").touch()
    assert [name for name in NEEDED if not is_shown(root, root / name)] == []
    assert [name for name in SECRET if is_shown(root, root / name)] == []


def test_few_mounts_are_needed_where_there_are_many_libraries(root):
    for number in range(1000):
        (root / "usr" / "lib" / f"lib{number}.so.1").touch()
    assert len(_walls(find_shown({}, root))) < 100
