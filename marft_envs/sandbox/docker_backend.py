"""Docker backend: warm, hardened containers with the runner as process 1, connected through attach.

Containers have no host mounts, no network, a read-only root file system and four capabilities: to change and to kill
user ids, and to give programs a root of their own, in memory (`jail/runtime_files.py`). These options withstood the
whole attack suite. The runner sets the strict seccomp filter per program.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from typing import Any

import docker.errors
from docker.types import LogConfig, Ulimit

from marft_envs.sandbox.docker_engine import ENGINE_ERRORS, ContainerJail, connect, knock
from marft_envs.sandbox.host_machine import (
    SLOTS_PER_PROCESS,
    UIDS_PER_SLOT,
    is_gone,
    owner_mark,
    physical_cores,
    process_number,
)
from marft_envs.sandbox.image import BOX, DEFAULT_IMAGE, PARENT, ROOT, TOOLS, VERSION_LABEL, image_version
from marft_envs.sandbox.jail.plan import DEVICES, ZEROS
from marft_envs.sandbox.judge_data import MAX_TEST_BYTES, SandboxError
from marft_envs.sandbox.local_runner import runner_command
from marft_envs.sandbox.slot import RunnerChannel, RunnerSlot, Slot, SlotError

OWNER_LABEL = "marft.owner"
# Room for the largest input, output and expected output at once (checker programs); memory is used as it fills.
_BOX_MB = (3 * MAX_TEST_BYTES >> 20) + 16
_ROOT_MB = 64  # most for the copies in the root of programs; the image's Python takes about 45


class DockerBackend:
    """Backend whose slots are containers.

    Args:
        image: Image name, built by `marft sandbox build`.
        workers: Number of slots that will be opened.
        memory_mb: Memory limit of one container in MiB, all processes together.

    Attributes:
        name: Name of the backend, "docker".
        tools: Paths of the interpreter and the compiler in the image.
        headers: None, since the image has them.

    Raises:
        SandboxError: No engine, no image, or an image of another version; the message says what to do.
    """

    name = "docker"

    def __init__(self, image: str, workers: int, memory_mb: int) -> None:
        self.tools = TOOLS
        self.headers = None
        self._image = image
        self._memory_mb = memory_mb
        self._client = connect(workers + 4)
        self._serial = itertools.count()
        try:
            self._check_image()
            self._cores = physical_cores() if workers <= self._client.info()["NCPU"] == os.cpu_count() else []
            self._remove(is_gone)  # left by a process that was killed
        except BaseException as error:
            self._client.close()
            if isinstance(error, ENGINE_ERRORS):
                raise SandboxError(f"the Docker engine failed: {error}") from error
            raise

    def open_slot(self, index: int) -> Slot:
        """Start a container and wait for its runner."""
        try:
            knock()
            jail = ContainerJail(self._client, self._options(index))
        except ENGINE_ERRORS as error:
            raise SlotError(f"no container: {error}") from error
        return RunnerSlot(jail, RunnerChannel(jail.stream, jail.unwrap), {**TOOLS, "box": BOX}).greet()

    def close(self) -> None:
        """Remove the remaining containers and close the connections."""
        with contextlib.suppress(*ENGINE_ERRORS):
            knock()
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

    def _remove(self, chosen: Callable[[str], bool]) -> None:
        """Remove the containers whose owner's mark is chosen."""
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
            "pids_limit": 65,  # the runner, the zygote, and a program with its threads
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
