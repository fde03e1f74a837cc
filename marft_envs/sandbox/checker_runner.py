"""Script that runs a checker program inside the jail, as main.py beside its files, and prints its score.

It uses the standard library only. The package never imports it: `ProgramChecker.submission_files` ships it.
"""

import io
import runpy
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

BOX = Path(__file__).resolve().parent
_MOST_CHARS = 4096


def check(contract: str, output_name: str) -> float:
    """Return the checker's score of an output, from 0 to 1.

    Args:
        contract: Calling convention of the checker, "function" or "files".
        output_name: Name of the file with the output.

    Raises:
        ValueError: The score is not a number from 0 to 1.
        Exception: Any exception of the checker itself.
    """
    names = ("input.txt", "correct_output.txt", output_name)
    score = _call(names) if contract == "function" else float(_run(names))
    if not 0 <= score <= 1:
        raise ValueError(f"the checker gave {score!r}, wanted a number from 0 to 1")
    return score


def _call(names: tuple[str, str, str]) -> float:
    given, expected, output = ((BOX / name).read_bytes().decode("utf-8", "replace") for name in names)
    with redirect_stdout(sys.stderr):
        found = runpy.run_path(str(BOX / "checker.py"), run_name="checker")["check"](given, output, expected)
    if not isinstance(found, (bool, int, float)):
        raise ValueError(f"the checker gave {type(found).__name__}, wanted a bool or a number from 0 to 1")
    return float(found)


def _run(names: tuple[str, str, str]) -> str:
    said = io.StringIO()
    sys.argv = ["checker.py", *(str(BOX / name) for name in names)]
    with redirect_stdout(said), suppress(SystemExit):  # many checkers exit this way; their printed score counts
        runpy.run_path(str(BOX / "checker.py"), run_name="__main__")
    return said.getvalue()[:_MOST_CHARS].strip()


def main() -> None:
    """Print the score; fail if the checker also fails on the expected output."""
    contract = (BOX / "contract.txt").read_text()
    try:
        score = check(contract, "solution_output.txt")
    except Exception:
        check(contract, "correct_output.txt")  # the checker works, so the output is invalid
        score = 0.0
    sys.stdout.write(f"{score!r}\n")


if __name__ == "__main__":
    main()
