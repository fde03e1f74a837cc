"""Decoder for the packed tests of LiveCodeBench: a JSON list, or base64(zlib(pickle(that JSON as a string))).

Unpickling runs code, so nothing is unpickled. The opcodes are read, and only those of one string are accepted.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickletools
import zlib
from typing import Any

MAX_UNPACKED_BYTES = 512 << 20
_OF_ONE_STRING = {
    "PROTO", "FRAME", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE", "MEMOIZE", "PUT", "BINPUT",
    "LONG_BINPUT", "STOP",
}  # fmt: skip


def unpack_tests(text: str, max_bytes: int = MAX_UNPACKED_BYTES) -> list[dict[str, Any]]:
    """Return the tests: objects with input, output and testtype.

    Args:
        text: Text of the column.
        max_bytes: Most bytes after decompression.

    Raises:
        ValueError: It is neither form; says what was found.
    """
    if not text.lstrip().startswith(("[", "{")):
        text = _string_of_pickle(_inflate(text, max_bytes))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"tests that are no JSON ({error})") from error
    if not (isinstance(found, list) and all(isinstance(test, dict) for test in found)):
        raise ValueError("tests that are no JSON list of objects")
    return found


def _inflate(text: str, max_bytes: int) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        content = reader.decompress(packed, max_bytes)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"tests that are neither JSON nor base64 of zlib ({error})") from error
    if not reader.eof:
        raise ValueError(f"packed tests that are cut short or larger than {max_bytes:,} bytes")
    return content


def _string_of_pickle(content: bytes) -> str:
    strings: list[str] = []
    try:
        for opcode, argument, place in pickletools.genops(content):
            if opcode.name not in _OF_ONE_STRING or len(strings) > 1:
                raise ValueError(f"opcode {opcode.name} at byte {place}")
            if "UNICODE" in opcode.name:
                strings.append(str(argument))
    except ValueError as error:
        raise ValueError(f"a pickle of something else than one string ({error})") from error
    if len(strings) != 1:
        raise ValueError(f"a pickle of {len(strings)} strings")
    return strings[0]
