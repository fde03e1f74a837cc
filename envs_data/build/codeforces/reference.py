"""Run a solution of ours inside this process, which is what makes the build take seconds and not minutes.

Only for the programs of this folder: nothing here isolates anything. Others go to `marft_envs.sandbox`.
"""

import io
import sys
from contextlib import redirect_stdout
from functools import cache
from types import CodeType


def answer(source: str, text: str) -> str:
    """Return what a Python program prints for an input; it must read `sys.stdin` and not exit by itself."""
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
