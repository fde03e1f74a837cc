"""Runs a checker program inside the jail, as main.py beside its files, and prints its score.

Standard library only, and never imported by the package: `ProgramChecker.submission_files` ships it.
"""

import io
import runpy
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

BOX = Path(__file__).resolve().parent
_MOST_CHARS = 4096


def check(contract: str, output_name: str) -> float:
    """Return the score that the checker gives to an output.

    Args:
        contract: "function" or "files".
        output_name: The file with the output.

    Raises:
        ValueError: It gives none from 0 to 1; whatever else the checker itself raises.
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
    with redirect_stdout(said), suppress(SystemExit):  # many end so; what they printed counts
        runpy.run_path(str(BOX / "checker.py"), run_name="__main__")
    return said.getvalue()[:_MOST_CHARS].strip()


def main() -> None:
    """Print the score; end with an error where the checker works for no output."""
    contract = (BOX / "contract.txt").read_text()
    try:
        score = check(contract, "solution_output.txt")
    except Exception:
        check(contract, "correct_output.txt")  # it works: what it can't read is the output
        score = 0.0
    sys.stdout.write(f"{score!r}\n")


if __name__ == "__main__":
    main()
