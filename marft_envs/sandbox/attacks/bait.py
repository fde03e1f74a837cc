"""Secrets laid out while attacks run: on the host, in its environment, in a neighbour, in the expected output.

None of them may appear in what an attack or a compiler prints.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from types import TracebackType

from marft_envs.sandbox.verdict import Test

MARK = "MARFT_SECRET_"
VARIABLE = "MARFT_CANARY"
_INSTALLED = (
    "/usr/src",
    "/usr/share",
    "/usr/lib",
    "/usr/local/share",
    "/opt",
    "/srv",
    "/usr/lib/python3/dist-packages",
)
_FOLDERS = ("/usr/local", "/usr/lib", "/usr/local/lib")  # as a virtual environment or a package has one


def _secret(kind: str) -> str:
    return f"{MARK}{kind}{secrets.token_hex(8)}"


class Bait:
    """A context in which files and a variable of the host hold secrets.

    Attributes:
        expected: What an attack would have to print to be right.
        neighbour: In the source and the input of the program that runs beside.
        files: Paths of the host with a secret each: temporary folders, shared memory, home, and, where this process
            may write there, places beside the system's own files in which packages and data are installed.
    """

    def __init__(self) -> None:
        self.expected = _secret("expected")
        self.neighbour = _secret("neighbour")
        self.files: list[Path] = []
        self._folders: list[Path] = []
        self._in_files = _secret("file")
        self._in_environment = _secret("variable")
        self._before = os.environ.get(VARIABLE)

    def __enter__(self) -> Bait:
        os.environ[VARIABLE] = self._in_environment
        name = f".marft_canary_{secrets.token_hex(4)}"
        folders = {Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm"), Path.home(), Path.cwd()}
        for folder in (*folders, *map(Path, _INSTALLED)):
            with contextlib.suppress(OSError):
                (folder / name).write_text(self._in_files + "\n")
                (folder / name).chmod(0o644)
                self.files.append(folder / name)
                (folder / f"{name}.link").symlink_to(self._in_files)
                os.setxattr(folder / name, "user.marft_canary", self._in_files.encode())
        for folder in map(Path, _FOLDERS):
            with contextlib.suppress(OSError):
                (folder / name).mkdir()
                self._folders.append(folder / name)
                (folder / name / "data").write_text(self._in_files + "\n")
                self.files.append(folder / name / "data")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self.files:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.link").unlink(missing_ok=True)
        for path in self._folders:
            path.rmdir()
        if self._before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._before

    def make_test(self, number: int, turn: int, answers: bool) -> Test:
        """Return an attack's test; in go a number, the judge's process id and which test it is, paths of secrets."""
        lines = [str(number), f"{os.getpid()} {turn}", *map(str, self.files), "end", ""]
        expected = str(number * number + 1) if answers else self.expected
        return Test("\n".join(lines).encode(), expected.encode())

    def find(self, text: bytes) -> list[str]:
        """Return the secrets that a text gives away."""
        kept = (self.expected, self.neighbour, self._in_files, self._in_environment, os.environ.get(VARIABLE, ""))
        return [secret for secret in dict.fromkeys(kept) if secret and secret.encode() in text]
