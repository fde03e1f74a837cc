"""Precompiled C++ headers for the backends without an image: built once on a machine, then shared by its judges.

A program that includes `bits/stdc++.h` compiles in a third of the time. The compiler reads a header's compiled form
where the flags are the same, and the header itself otherwise.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from marft_envs.sandbox.host_machine import is_ours
from marft_envs.sandbox.languages import CXX_FLAGS

_STANDARDS = ("c++17", "c++20")
_PARENT = Path("/var/tmp")  # kept for weeks, and open to the user ids of builds
_COMPILE_S = 300.0
_OPEN = 0o755  # whatever the umask
_log = logging.getLogger(__name__)


class CompiledHeaders:
    """Folder with `bits/stdc++.h` compiled for each C++ standard; one for each user and compiler.

    Args:
        compiler: Path of g++.
        parent: Folder to create it in; unprivileged users must be able to enter it.

    Attributes:
        path: The folder. Jails may read it, and only we may write to it.

    Raises:
        OSError: The folder is somebody else's, or cannot be created.
    """

    def __init__(self, compiler: str, parent: Path = _PARENT) -> None:
        self._compiler = compiler
        version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
        key = hashlib.sha256(repr((os.path.realpath(compiler), version, CXX_FLAGS)).encode()).hexdigest()[:16]
        self.path = parent / f"marft-headers-{os.geteuid()}-{key}"
        self.path.mkdir(exist_ok=True)
        if not is_ours(self.path):
            raise OSError(f"{self.path} is not a folder of this user")
        self.path.chmod(_OPEN)
        self._compiling = threading.Lock()
        self._failed = False

    def compile(self, command: str) -> None:
        """Compile what a build command uses and the folder does not hold yet: seconds, once.

        A failure is logged, and programs then compile as slowly as without.

        Args:
            command: Build command of a language, with its placeholders.
        """
        for standard in _STANDARDS:
            file = self.path / standard / "bits" / "stdc++.h.gch"
            if f"{{headers}}/{standard}" in command:
                with self._compiling:
                    if not self._failed and not file.is_file():
                        self._compile(standard, file)

    def _compile(self, standard: str, file: Path) -> None:
        _log.info("compiling the standard headers of %s into %s, once on this machine", standard, file)
        try:
            for folder in (file.parents[1], file.parent):
                folder.mkdir(exist_ok=True)
                folder.chmod(_OPEN)
            scratch = Path(tempfile.mkdtemp(dir=file.parent))
            try:
                (scratch / "all.h").write_text("#include <bits/stdc++.h>\n", encoding="utf-8")
                command = [self._compiler, f"-std={standard}", *CXX_FLAGS, "-x", "c++-header", "all.h", "-o", "made"]
                subprocess.run(command, cwd=scratch, capture_output=True, check=True, timeout=_COMPILE_S)
                (scratch / "made").chmod(0o644)
                (scratch / "made").replace(file)  # another judge may do the same at the same time
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        except (OSError, subprocess.SubprocessError) as error:
            self._failed = True
            _log.warning("the standard headers of %s were not compiled: %s", standard, error)


def compiled_headers(compiler: str | None) -> CompiledHeaders | None:
    """Return the compiled headers of a compiler; None without a compiler or a place for them."""
    if compiler is None:
        return None
    try:
        return CompiledHeaders(compiler)
    except OSError as error:
        _log.warning("C++ programs compile without precompiled headers: %s", error)
        return None
