"""LiveCodeBench packs its private tests as a pickle: one string is taken, and nothing else is ever unpickled."""

import base64
import json
import os
import pickle
import zlib

import pytest

from marft_envs.tasks.code.packed_tests import unpack_tests

TESTS = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_one_string_is_unpacked_and_anything_else_refused(protocol):
    assert unpack_tests(packed(pickle.dumps(json.dumps(TESTS), protocol))) == TESTS
    with pytest.raises(ValueError, match="pickle of"):
        unpack_tests(packed(pickle.dumps([json.dumps(TESTS)], protocol)))


def test_plain_json_needs_no_unpacking():
    assert unpack_tests(" " + json.dumps(TESTS)) == TESTS


def test_nothing_of_a_pack_runs(tmp_path):
    trap = tmp_path / "trap"
    with pytest.raises(ValueError, match="something else than one string"):
        unpack_tests(packed(pickle.dumps(Trap(trap))))
    assert not trap.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80", b"I1\n.", b"cposix\nsystem\n.", b"V1\nV2\n.", b".", b"\x80\x04\x8c\xff", b"V1\n2.", b"N.", b"V1\n."],
)
def test_no_pack_does_more_than_raise(content):
    with pytest.raises(ValueError, match=r"pickle of|no JSON"):
        unpack_tests(packed(content))


def test_a_pack_that_unpacks_to_too_much_is_refused_before_it_does():
    bomb = packed(pickle.dumps("[" + " " * 5_000_000 + "]"))
    with pytest.raises(ValueError, match="larger than 1,000,000"):
        unpack_tests(bomb, max_bytes=1_000_000)
    with pytest.raises(ValueError, match="cut short"):
        unpack_tests(base64.b64encode(zlib.compress(b"x" * 1000)[:-6]).decode())
