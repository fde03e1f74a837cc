"""Image of the Docker backend: its version, and builds with or without a registry."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import IO, Any

from marft_envs.sandbox.judge_data import SandboxError
from marft_envs.sandbox.languages import CXX_FLAGS

DEFAULT_IMAGE = os.environ.get("MARFT_SANDBOX_IMAGE") or "marft-sandbox"
DEFAULT_BASE = "python:3.11-slim-bookworm"
VERSION_LABEL = "marft.version"
# The box is in the root of programs; a link leads there, so that its files have the same path for builds.
BOX, ROOT, PARENT = "/box", "/jail", "/marft"
TOOLS: Mapping[str, str] = {
    "python": f"{PARENT}/bin/python3",
    "c++": f"{PARENT}/bin/g++",
    "headers": f"{PARENT}/headers",
}
_PACKAGES = "python3,g++"


def image_version() -> str:
    """Return the image version that this code needs: a hash of all files and flags of the build."""
    digest = hashlib.sha256(" ".join(CXX_FLAGS).encode())
    for name, content in sorted(_files().items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]


def build_image(image: str, base: str = DEFAULT_BASE, say: Callable[[str], None] = print) -> None:
    """Build the image from a base image that the engine has or can pull.

    Args:
        image: Name of the new image.
        base: Debian image with Python 3.11 or newer; g++ is installed if it is missing.
        say: Callback for each line of the build's output.

    Raises:
        SandboxError: No engine, or a failed step; the message holds its last lines.
    """
    from marft_envs.sandbox.docker_engine import ENGINE_ERRORS, connect

    client = connect()
    try:
        before = {found.id for found in client.images.list(image)}
        _build(client, image, base, say)
        for stale in before - {client.images.get(image).id}:
            with contextlib.suppress(*ENGINE_ERRORS):  # a judge of the old version may still use it
                client.images.remove(stale)
    except ENGINE_ERRORS as error:
        raise SandboxError(f"image {image!r}: the engine failed: {error}") from error
    finally:
        client.close()


def _build(client: Any, image: str, base: str, say: Callable[[str], None]) -> None:
    arguments = {"BASE": base, "CXX_FLAGS": " ".join(CXX_FLAGS), "VERSION": image_version()}
    options = {"tag": image, "rm": True, "forcerm": True, "buildargs": arguments}
    lines: list[str] = []
    for event in client.api.build(fileobj=_context(), custom_context=True, decode=True, **options):
        text = str(event.get("stream") or event.get("error") or "").strip()
        if text:
            lines += text.splitlines()
            say(text)
        if "error" in event:
            advice = "where no registry can be reached, use `marft sandbox build --rootfs DIR`"
            raise SandboxError("\n".join([f"image {image!r}: the build failed; {advice}:", *lines[-12:]]))


def import_rootfs(folder: Path, name: str, suite: str = "bookworm", say: Callable[[str], None] = print) -> None:
    """Create a base image from a root file system; debootstrap creates the folder first if it is missing.

    Args:
        folder: Folder of the root file system.
        name: Name of the new image.
        suite: Debian suite for debootstrap.
        say: Callback for lines of progress.

    Raises:
        SandboxError: The folder cannot be created or is not a root file system; the message says what to do.
    """
    if not folder.exists():
        _debootstrap(folder, suite, say)
    if not (folder / "usr" / "bin").is_dir():
        raise SandboxError(f"{folder} is no root file system: it has no usr/bin")
    from marft_envs.sandbox.docker_engine import ENGINE_ERRORS, connect

    client = connect()
    say(f"importing {folder} as {name}")
    with subprocess.Popen(["tar", "-C", str(folder), "-c", "."], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            packed = _Progress(process.stdout, say)
            client.api.import_image_from_stream(iter(packed.read_some, b""), repository=name, tag="latest")
        except ENGINE_ERRORS as error:
            process.kill()
            raise SandboxError(f"image {name!r}: the engine failed: {error}") from error
        finally:
            client.close()
    if process.returncode:
        raise SandboxError(f"{folder}: tar could not read all of it; are you root?")


class _Progress:
    """Stream that reports its progress every 100 MB."""

    def __init__(self, stream: IO[bytes], say: Callable[[str], None]) -> None:
        self._stream, self._say, self._read = stream, say, 0

    def read_some(self) -> bytes:
        """Return the next chunk; empty at the end."""
        piece = self._stream.read(1 << 20)
        before, self._read = self._read, self._read + len(piece)
        if self._read // 10**8 > before // 10**8:
            self._say(f"imported {self._read // 10**6} MB")
        return piece


def _debootstrap(folder: Path, suite: str, say: Callable[[str], None]) -> None:
    program = shutil.which("debootstrap", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        raise SandboxError(
            f"{folder} does not exist, and debootstrap is not installed to make it: apt install debootstrap"
        )
    say(f"making {folder} with debootstrap ({suite}); this takes minutes")
    command = [program, "--variant=minbase", f"--include={_PACKAGES}", suite, str(folder)]
    lines: list[str] = []
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=both, errors="replace") as process:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            say(lines[-1])
    if process.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise SandboxError("\n".join(["debootstrap failed (it must be run as root):", *lines[-12:]]))


def _files() -> dict[str, bytes]:
    """Return the files of the build: the Dockerfile and the sources of the runner."""
    here = resources.files("marft_envs.sandbox")
    files = {"Dockerfile": here.joinpath("Dockerfile").read_bytes()}
    for file in here.joinpath("jail").iterdir():
        if file.is_file() and file.name.endswith((".py", ".c")):
            files[f"jail/{file.name}"] = file.read_bytes()
    return files


def _context() -> IO[bytes]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in _files().items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    packed.seek(0)
    return packed
