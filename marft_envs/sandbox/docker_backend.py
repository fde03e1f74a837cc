"""Docker backend: warm, hardened containers with the runner as process 1, connected through attach.

Containers have no host mounts, no network, a read-only root file system and four capabilities: to change and to kill
user ids, and to give programs a root of their own, in memory (`jail/root.py`). These options withstood the whole attack
suite. The runner sets the strict seccomp filter per program.
`docker cp` and similar commands are never used on a container, as links inside have fooled them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import socket
import struct
import time
from typing import Any

import docker
import docker.errors
import requests
from docker.types import LogConfig, Ulimit

from marft_envs.sandbox.channel import Channel, SlotError
from marft_envs.sandbox.image import BOX, DEFAULT_IMAGE, PARENT, ROOT, TOOLS, VERSION_LABEL, image_version
from marft_envs.sandbox.jail.plan import DEVICES, ZEROS
from marft_envs.sandbox.machine import SLOTS_PER_PROCESS, UIDS_PER_SLOT, physical_cores, process_number
from marft_envs.sandbox.owner import is_gone, owner_mark
from marft_envs.sandbox.process import runner_command
from marft_envs.sandbox.slot import RunnerSlot, Slot
from marft_envs.sandbox.submission import MAX_TEST_BYTES
from marft_envs.sandbox.verdict import SandboxError

OWNER_LABEL = "marft.owner"
# Room for the largest input, output and expected output at once (checker programs); memory is used as it fills.
_BOX_MB = (3 * MAX_TEST_BYTES >> 20) + 16
_LOG_BYTES = 2048
_ROOT_MB = 64  # most for the copies in the root of programs; the image's Python takes about 45
_STDOUT, _HEADER = 1, struct.Struct(">BxxxI")
_KILLED = "137"  # exit status as the engine reports it: 128 + SIGKILL
ENGINE_ERRORS = (docker.errors.DockerException, requests.RequestException, OSError)


def connect(max_connections: int = 10) -> docker.DockerClient:
    """Return a client of the Docker engine.

    Raises:
        SandboxError: There is no engine, or no permission to use it; the message says what to do.
    """
    try:
        _knock()
        return docker.from_env(max_pool_size=max_connections)
    except ENGINE_ERRORS as error:
        if "PermissionError" in repr(error) or "Permission denied" in str(error):
            advice = "you may not use it: join the group docker (and log in again), or use rootless Docker"
        else:
            advice = "is it running? Start it (systemctl start docker), or set DOCKER_HOST"
        raise SandboxError(f"the Docker engine at {_address()} does not answer; {advice} ({error})") from error


def _address() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _knock() -> None:
    """Raise OSError if nothing listens on the engine's socket; the SDK would raise too, but leak a socket."""
    if _address().startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(_address().removeprefix("unix://"))


class DockerBackend:
    """Backend whose slots are containers.

    Args:
        image: Image name, built by `marft sandbox build`.
        workers: Number of slots that will be opened.
        memory_mb: Memory limit of one container in MiB, all processes together.

    Attributes:
        name: Name of the backend, "docker".
        tools: Paths of the interpreter and the compiler in the image.

    Raises:
        SandboxError: No engine, no image, or an image of another version; the message says what to do.
    """

    name = "docker"

    def __init__(self, image: str, workers: int, memory_mb: int) -> None:
        self.tools = TOOLS
        self._image = image
        self._memory_mb = memory_mb
        self._client = connect(workers + 4)
        self._serial = itertools.count()
        try:
            self._check_image()
            self._cores = physical_cores() if workers <= self._client.info()["NCPU"] == os.cpu_count() else []
            self._reap()
        except BaseException as error:
            self._client.close()
            if isinstance(error, ENGINE_ERRORS):
                raise SandboxError(f"the Docker engine failed: {error}") from error
            raise

    def open_slot(self, index: int) -> Slot:
        """Start a container and wait for its runner."""
        try:
            _knock()
            jail = ContainerJail(self._client, self._options(index))
        except ENGINE_ERRORS as error:
            raise SlotError(f"no container: {error}") from error
        return RunnerSlot(jail, Channel(jail.stream, jail.unwrap), {**TOOLS, "box": BOX}).greet()

    def close(self) -> None:
        """Remove the remaining containers and close the connections."""
        with contextlib.suppress(*ENGINE_ERRORS):
            _knock()
            self._remove(lambda mark: mark == owner_mark())
        self._client.close()

    def _check_image(self) -> None:
        build = "run `marft sandbox build" + ("`" if self._image == DEFAULT_IMAGE else f" --image {self._image}`")
        try:
            labels = self._client.images.get(self._image).labels
        except docker.errors.ImageNotFound as error:
            raise SandboxError(f"no image {self._image!r}: {build}") from error
        if labels.get(VERSION_LABEL) != image_version():
            raise SandboxError(f"image {self._image!r} is of another version of marft: {build} again")

    def _reap(self) -> None:
        """Remove containers of owners that were killed."""
        self._remove(is_gone)

    def _remove(self, chosen: Any) -> None:
        for container in self._client.containers.list(all=True, filters={"label": OWNER_LABEL}, ignore_removed=True):
            if chosen(container.labels.get(OWNER_LABEL, "")):
                with contextlib.suppress(docker.errors.APIError):
                    container.remove(force=True)

    def _options(self, index: int) -> dict[str, Any]:
        pin = {"cpuset_cpus": str(self._cores[index % len(self._cores)])} if self._cores else {}
        # Process limits count by user id across all containers of a host, so containers share no ids.
        number = process_number() * SLOTS_PER_PROCESS + next(self._serial)
        first = 10_000 + number % 3000 * UIDS_PER_SLOT
        uids = f"{first}:{first + UIDS_PER_SLOT - 1}"
        command = runner_command(TOOLS["python"], PARENT, "uid", BOX, "--uids", uids, "--root", ROOT)
        return {
            "image": self._image,
            "command": command,
            "entrypoint": [],
            "user": "0:0",
            "cap_drop": ["ALL"],
            "cap_add": ["SETUID", "SETGID", "KILL", "SYS_CHROOT"],
            "security_opt": ["no-new-privileges:true"],
            "network_mode": "none",
            "ipc_mode": "none",
            "read_only": True,
            # noatime: programs could see whether a file was read since the start
            "tmpfs": {
                ROOT: f"rw,exec,nosuid,nodev,noatime,size={_ROOT_MB}m,mode=0755",
                f"{ROOT}{BOX}": f"rw,exec,nosuid,nodev,noatime,size={_BOX_MB}m,nr_inodes=4096,mode=0755",
                f"{ROOT}/dev": "rw,dev,noexec,nosuid,noatime,size=64k,mode=0755",
            },
            "devices": [f"{path}:{ROOT}{path}:rw" for path in (*DEVICES, ZEROS)],
            "mem_limit": f"{self._memory_mb + _ROOT_MB}m",
            "memswap_limit": f"{self._memory_mb + _ROOT_MB}m",
            "pids_limit": 64,
            "nano_cpus": 1_000_000_000,
            "ulimits": [Ulimit(name="core", soft=1, hard=1), Ulimit(name="nofile", soft=256, hard=256)],
            "log_config": LogConfig(type="none"),  # json-file would write all output to the host's disk
            "stdin_open": True,  # with attach: closing our connection ends its input and so the runner
            "tty": False,
            "hostname": "sandbox",
            "environment": {},
            "labels": {OWNER_LABEL: owner_mark()},
            "init": False,
            "auto_remove": True,
            **pin,
        }


class ContainerJail:
    """Container with a connection to its process 1.

    Args:
        client: Client of the engine.
        options: Arguments of `client.containers.create`.

    Attributes:
        stream: Socket to the runner's input and output; the output arrives in packets of the engine.
    """

    def __init__(self, client: docker.DockerClient, options: dict[str, Any]) -> None:
        self._client = client
        self._packets = bytearray()
        self._log = b""
        self._attached = None
        self._container = client.containers.create(**options)
        try:
            wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._attached = client.api.attach_socket(self._container.id, params=wanted)  # before the start
            self.stream: socket.socket = self._attached._sock
            self._container.start()
        except BaseException:
            self.kill()
            self.release()
            raise

    def unwrap(self, chunk: bytes) -> bytes:
        """Extract the runner's standard output from packets; other streams go to the log."""
        self._packets += chunk
        found = bytearray()
        while len(self._packets) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._packets)
            end = _HEADER.size + length
            if len(self._packets) < end:
                break
            content = self._packets[_HEADER.size : end]
            if kind == _STDOUT:
                found += content
            else:
                self._log = (self._log + content)[-_LOG_BYTES:]
            del self._packets[:end]
        return bytes(found)

    def ran_out_of_memory(self) -> bool:
        """True if the engine's events show that the container ran out of memory and its process 1 was killed.

        The container cannot be inspected, as it is removed when it ends.
        """
        events: list[dict[str, Any]] = []
        with contextlib.suppress(*ENGINE_ERRORS):
            _knock()
            wanted = {"container": self._container.id, "event": ["oom", "die"]}
            until = math.ceil(time.time()) + 1  # the event may arrive late
            events += self._client.api.events(since=0, until=until, filters=wanted, decode=True)
        died = [event["Actor"]["Attributes"].get("exitCode") for event in events if event["Action"] == "die"]
        return died == [_KILLED] and any(event["Action"] == "oom" for event in events)

    def kill(self) -> None:
        """Remove the container; a missing container or engine is not an error."""
        with contextlib.suppress(*ENGINE_ERRORS):
            _knock()
            self._container.remove(force=True)

    def last_words(self) -> str:
        """Return the last bytes of the runner's log."""
        return self._log.decode(errors="replace")

    def release(self) -> None:
        """Close the connection, if there is one."""
        if self._attached is not None:
            self._attached._response.close()
            self._attached.close()
