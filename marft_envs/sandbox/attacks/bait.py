"""Secrets placed while attacks run: on the host, in its environment, in a neighbour, in the expected output.

None of them may appear in the output of an attack or of a compiler.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from types import TracebackType

from marft_envs.sandbox.judge_data import Test

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
_FOLDERS = ("/usr/local", "/usr/lib", "/usr/local/lib")  # parents of folders such as those of virtual environments


def _secret(kind: str) -> str:
    return f"{MARK}{kind}{secrets.token_hex(8)}"


class Bait:
    """Context in which files and an environment variable of the host hold secrets.

    Attributes:
        expected: Secret expected output of the attack's test.
        neighbour: Secret in the source and the input of the neighbour program.
        files: Paths on the host with a secret each: in temporary folders, shared memory and home. Folders of
            installed packages and data are included if this process may write there.
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
        """Return a test whose input holds a number, the judge's process id, the test's index, and paths of secrets."""
        lines = [str(number), f"{os.getpid()} {turn}", *map(str, self.files), "end", ""]
        expected = str(number * number + 1) if answers else self.expected
        return Test("\n".join(lines).encode(), expected.encode())

    def find(self, text: bytes) -> list[str]:
        """Return the secrets that occur in a text."""
        kept = (self.expected, self.neighbour, self._in_files, self._in_environment, os.environ.get(VARIABLE, ""))
        return [secret for secret in dict.fromkeys(kept) if secret and secret.encode() in text]
