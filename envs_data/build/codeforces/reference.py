"""Execution of our own solutions inside this process, so that the build takes seconds instead of minutes.

Only for the programs of this folder, as there is no isolation. Use `marft_envs.sandbox` for all others.
"""

import io
import sys
from contextlib import redirect_stdout
from functools import cache
from types import CodeType


def answer(source: str, text: str) -> str:
    """Return the output of a Python program for an input; it must read `sys.stdin` and not exit early."""
    printed = io.StringIO()
    stdin = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="ascii")
    try:
        with redirect_stdout(printed):
            exec(_compiled(source), {"__name__": "__main__"})  # noqa: S102 (our own source)
    finally:
        sys.stdin = stdin
    return printed.getvalue()


@cache
def _compiled(source: str) -> CodeType:
    return compile(source, "solution.py", "exec")
