"""Log of a vLLM server on this machine: where `marft vllm` writes it, and the error that ended the server."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import urlsplit

from marft_agents.models.pretrained import cache_folder

THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
READ = 1 << 18  # bytes at the end of a log that are searched for its last error
# `(EngineCore pid=7) ERROR 11-22 10:00:00 [core.py:1] ValueError: ...`: process and place come before the error.
PREFIX = re.compile(r"^(\(\w+ pid=\d+\) )?((ERROR|CRITICAL) [^\]]*\] ?)?")
ERROR = re.compile(r"^([A-Za-z_]\w*\.)*\w*(Error|Exception)(: .*)?$")
# Errors of a process whose engine failed: the engine's own error comes before them.
CONSEQUENCE = re.compile(r"^(\w+\.)*EngineDeadError|root cause|CancelledError")


def log_path(port: int) -> Path:
    """Return the file to which `marft vllm` writes the log of the server on a port of this machine."""
    return cache_folder() / f"vllm-{port}.log"


def last_error(base_url: str) -> str:
    """Return the last error in the log of the server at a URL, as an addition to an error message.

    It is empty for a server on another machine, and for one that `marft vllm` did not start.
    """
    try:
        url = urlsplit(base_url)
        if url.hostname not in THIS_MACHINE or url.port is None:
            return ""
        path = log_path(url.port)
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ))
            lines = [PREFIX.sub("", line).strip() for line in file.read().decode(errors="replace").splitlines()]
        age = time.time() - path.stat().st_mtime
    except (OSError, ValueError):  # no log, or no port
        return ""
    errors = [line for line in lines if ERROR.match(line)]
    causes = [line for line in errors if not CONSEQUENCE.search(line)]
    if found := (causes or errors)[-1:]:
        told = f"ends with the error: {found[0][:300]}"
    else:
        told = "has no error: it was stopped from outside, perhaps for lack of memory"
    return f". The server's log {path}, last written {age:.0f} s ago, {told}"
