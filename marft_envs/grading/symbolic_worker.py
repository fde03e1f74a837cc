"""Worker process for math-verify: a script that forks one short-lived child per pair of answers.

It imports math-verify once, then waits on the socket whose descriptor is its argument. Each message brings one
end of a new socket pair; a forked child reads the job from it, writes the verdict to it and ends.
The kernel ends the child at the deadline: the interval timer has its default action, so no Python code can delay it.
This file imports no other module of the project, so it starts fast and holds no state of the caller.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sys
from typing import Any

WARM_UP = (("\\frac{1}{2}", "0.5"), ("x^2+2x+1", "(x+1)^2"), ("[0,1)", "0\\le x<1"), ("\\{1,2\\}", "2,1"))


def decide(first: str, second: str) -> bool:
    """Run math-verify in both directions; its own timeouts are off, as they need the main thread.

    `math_verify.parse` would extract a number from a text that it cannot read. Its parser alone refuses that text.

    Raises:
        Exception: A text that the parser cannot read to its end.
    """
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, NormalizationConfig, latex2sympy
    from math_verify import verify
    from math_verify.grader import should_treat_as_complex

    parsed = [
        latex2sympy(
            text,
            is_real=not should_treat_as_complex(text),
            normalization_config=NormalizationConfig(malformed_operators=True, boxed="none"),
            conversion_config=ConversionConfig(lowercase_symbols=False),
        )
        for text in (first, second)
    ]
    options: dict[str, Any] = {
        "float_rounding": 15,
        "numeric_precision": 40,
        "strict": True,
        "allow_set_relation_comp": True,
        "timeout_seconds": None,
    }
    return bool(verify(parsed[0], parsed[1], **options) or verify(parsed[1], parsed[0], **options))


def set_limits(wall_s: float, cpu_s: int, memory_bytes: int) -> None:
    """Set the limits of this process: wall and CPU time, memory, no files, no core dump."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, wall_s)
    for name, bound in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(name, (bound, bound))


def run_job(job: socket.socket) -> None:
    """Read one job, send our process id, decide, and send the verdict."""
    with job, job.makefile("rwb", buffering=0) as stream:
        request = json.loads(stream.readline())
        set_limits(request["wall_s"], request["cpu_s"], request["memory_bytes"])
        stream.write(b"%d\n" % os.getpid())
        try:
            reply: dict[str, bool | str] = {"equal": decide(request["first"], request["second"])}
        except (Exception, RecursionError) as error:
            reply = {"error": f"{type(error).__name__}: {error}"[:200]}
        stream.write(json.dumps(reply).encode() + b"\n")


def serve(control: socket.socket) -> None:
    """Fork a child for every socket received; return when the owner closes its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        job = socket.socket(fileno=descriptors[0])
        if os.fork() == 0:
            control.close()
            with contextlib.suppress(BaseException):
                run_job(job)
            os._exit(0)
        job.close()


def main() -> None:
    """Warm up, report ready, and serve jobs."""
    import logging

    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(3_000)
    control = socket.socket(fileno=int(sys.argv[1]))
    for first, second in WARM_UP:
        decide(first, second)
    control.send(b"r")
    serve(control)


if __name__ == "__main__":
    main()
