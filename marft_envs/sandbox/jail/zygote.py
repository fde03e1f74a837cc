"""Zygote: an interpreter that has started, and is forked for each test instead of starting anew.

The interpreter runs the command of the program with one more argument, the library of spawn.c, and loads it before it
opens any file of the program. From then on it serves requests of the runner in C. A fork of it carries out the plan of
its test, with user id, limits, Landlock and system-call filter, and only then returns to the interpreter.

- No zygote ever reads a byte of a program or of an input. It starts outside of the box, and there is a new one for each
  submission.
- A test's process is a child of the runner, as if it had been executed. It has no descriptor of the zygote, and the
  filter lets it signal, trace and query no process but itself. In the modes with user ids the zygote has that of the
  runner.
- What a fork keeps of its zygote: the layout of the address space, which is that of all tests of the submission, and
  the library, which stays mapped.

If a zygote cannot be used, the runner executes the interpreter for each test.
"""

import contextlib
import ctypes
import os
import resource
import signal

from .plan import Plan
from .runtime_files import LIBRARY
from .spawn import NativeSpawner
from .watch import CHILDREN

_PATIENCE_S = 5  # for the start of the interpreter on a busy machine


class Zygote(NativeSpawner):
    """Spawner of forks of one interpreter, which it starts.

    Args:
        plan: Plan of the program.
        spawner: Spawner that starts the interpreter.

    Attributes:
        pid: Process id of the interpreter.

    Raises:
        OSError: The interpreter cannot be started, or this kernel does not list children.
    """

    def __init__(self, plan: Plan, spawner: NativeSpawner) -> None:
        super().__init__(spawner.library)
        self._command = _command(plan)
        os.stat(CHILDREN)
        ends = (ctypes.c_int * 2)()
        self._started(self.library.jail_channel(ends, _PATIENCE_S))
        self._channel, theirs = ends
        # Standard streams of the same kind as those of a test: the interpreter sets up its buffers by them.
        stdio, folder = os.memfd_create("stdio"), os.open(plan.root or b"/", os.O_PATH | os.O_CLOEXEC)
        try:
            self.pid = spawner.start(_plan_of_zygote(plan, folder, stdio, theirs, spawner.library._name))
        except OSError:
            os.close(self._channel)
            raise
        finally:
            for descriptor in (theirs, stdio, folder):
                os.close(descriptor)
        code, text = spawner.failure()
        if code:
            self.close()
            raise OSError(code, text)

    def fits(self, plan: Plan) -> bool:
        """True if this is the interpreter of a plan."""
        return _command(plan) == self._command

    def start(self, plan: Plan) -> int:
        """Start a fork; see `ForkSpawner.start`.

        Raises:
            OSError: The zygote has ended or does not answer; close it.
        """
        return self._started(self.library.jail_fork(self._channel, ctypes.byref(self._prepared(plan))))

    def failure(self) -> tuple[int, str]:
        """Return errno and text; see `ForkSpawner.failure`."""
        self.library.jail_fork_ended(self._channel, ctypes.byref(self._data))
        return super().failure()

    def close(self) -> None:
        """End the interpreter."""
        os.close(self._channel)
        with contextlib.suppress(ChildProcessError):  # it has ended, and was reaped with others
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)


def _command(plan: Plan) -> tuple[object, ...]:
    return plan.root, plan.path, plan.argv, plan.environment


def _plan_of_zygote(plan: Plan, folder: int, stdio: int, channel: int, library: str) -> Plan:
    """Return the plan of the interpreter itself: ours but for what a fork cannot change later."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    return plan._replace(
        folder=folder,
        stdio=(stdio,) * 3,
        channel=channel,
        limits=tuple(limit for limit in plan.limits if limit[0] == resource.RLIMIT_STACK),  # decides where memory lies
        memory=hard,
        uid=None,
        ruleset=None,
        filter=None,
        argv=(*plan.argv, os.fsencode(LIBRARY if plan.root else library)),
    )
