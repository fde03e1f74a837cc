"""Docker engine of the judge: a client of it, and containers that are connected to their process 1.

`docker cp` and similar commands are never used on a container, as links inside have fooled them.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import struct
import time
from typing import Any

import docker
import docker.errors
import requests

from marft_envs.sandbox.judge_data import SandboxError

ENGINE_ERRORS = (docker.errors.DockerException, requests.RequestException, OSError)
_LOG_BYTES = 2048
_STDOUT, _HEADER = 1, struct.Struct(">BxxxI")
_KILLED = "137"  # exit status as the engine reports it: 128 + SIGKILL


def connect(max_connections: int = 10) -> docker.DockerClient:
    """Return a client of the Docker engine.

    Raises:
        SandboxError: There is no engine, or no permission to use it; the message says what to do.
    """
    try:
        knock()
        return docker.from_env(max_pool_size=max_connections)
    except ENGINE_ERRORS as error:
        if "PermissionError" in repr(error) or "Permission denied" in str(error):
            advice = "you may not use it: join the group docker (and log in again), or use rootless Docker"
        else:
            advice = "is it running? Start it (systemctl start docker), or set DOCKER_HOST"
        raise SandboxError(f"the Docker engine at {_address()} does not answer; {advice} ({error})") from error


def _address() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def knock() -> None:
    """Raise OSError if nothing listens on the engine's socket; the SDK would raise too, but leak a socket."""
    if _address().startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(_address().removeprefix("unix://"))


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
            knock()
            wanted = {"container": self._container.id, "event": ["oom", "die"]}
            until = math.ceil(time.time()) + 1  # the event may arrive late
            events += self._client.api.events(since=0, until=until, filters=wanted, decode=True)
        died = [event["Actor"]["Attributes"].get("exitCode") for event in events if event["Action"] == "die"]
        return died == [_KILLED] and any(event["Action"] == "oom" for event in events)

    def kill(self) -> None:
        """Remove the container; a missing container or engine is not an error."""
        with contextlib.suppress(*ENGINE_ERRORS):
            knock()
            self._container.remove(force=True)

    def last_words(self) -> str:
        """Return the last bytes of the runner's log."""
        return self._log.decode(errors="replace")

    def release(self) -> None:
        """Close the connection, if there is one."""
        if self._attached is not None:
            self._attached._response.close()
            self._attached.close()
