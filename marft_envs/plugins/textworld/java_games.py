"""Games of TextWorldExpress in one Java process.

A game is its seed and its actions so far. The process keeps the latest games; others are played again when needed.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from envs_data.packages import Package, PackageError
from marft_envs import JudgeFailure

PACKAGE = Package(
    "textworld-express", "textworld_express", "1.1.0", "pip install 'marft[textworld]'", needs=("py4j", "orjson")
)
JAR = ("textworld-express.jar", "23da9ab053dde2de003b4556a2734af3225dc3a0ef8af7354df53aafb5c77d99")
JAVA = "a Java runtime, such as Debian's: apt-get install default-jre-headless"
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STATIC = frozenset({"sorting"})  # its state is static in the Java code: the game begun last is the only one
_MOST_GAMES = 32  # kept in the Java process; others are played again from their first action


class Start(NamedTuple):
    """First state of a game: its name, settings, split and seed."""

    game: str
    params: str
    split: str
    seed: int


class State(NamedTuple):
    """State of a game.

    Attributes:
        text: Answer to the last action; at the start the view of the room.
        valid: Possible actions, sorted.
        score: The game's score, -1 to 1.
        won: True once the task is solved.
        lost: True once it cannot be solved.
    """

    text: str
    valid: tuple[str, ...]
    score: float
    won: bool
    lost: bool


class _Java:
    """The Java process and the games in it, by start and actions so far."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.gateway: Any = None
        self.games: OrderedDict[tuple[Start, tuple[str, ...]], Any] = OrderedDict()

    def interface(self) -> Any:
        """Return the interface of a new game; the first starts the process."""
        if self.gateway is None:
            self.gateway = _launch()
        return self.gateway.jvm.textworldexpress.runtime.PythonInterface()

    def keep(self, place: tuple[Start, tuple[str, ...]], game: Any) -> None:
        self.games[place] = game
        while len(self.games) > _MOST_GAMES:
            self.games.popitem(last=False)

    def close(self) -> None:
        with self.lock:
            if self.gateway is not None:
                process = self.gateway.java_process
                self.games.clear()
                self.gateway.shutdown()
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()
                self.gateway = None


def _launch() -> Any:
    """Start the Java process."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    port, process = launch_gateway(
        classpath=str(PACKAGE.folder / JAR[0]),
        cwd=str(PACKAGE.folder),
        javaopts=list(_OPTIONS),
        die_on_exit=True,
        return_proc=True,
    )
    return JavaGateway(gateway_parameters=GatewayParameters(auto_field=True, port=port), java_process=process)


_java = _Java()
_of_parents: list[_Java] = []  # in a forked child: kept, so that nothing of them is closed over the parent's sockets


def _forget() -> None:
    global _java  # noqa: PLW0603 - one per process
    _of_parents.append(_java)
    _java = _Java()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def close() -> None:
    """Stop the Java process now; otherwise it ends with this one. The next request starts a new one."""
    _java.close()


atexit.register(close)


def check() -> None:
    """Require the package, its data, and Java.

    Raises:
        PackageError: One is missing, or another version.
    """
    PACKAGE.read(*JAR)
    if shutil.which("java") is None:
        raise PackageError(f"TextWorldExpress needs {JAVA}")


def begin(start: Start) -> tuple[str, State]:
    """Start a game; return the description of the task, and the first state.

    Raises:
        ValueError: The game refuses its settings.
        JudgeFailure: The Java process failed.
    """
    with _java.lock, _java_errors():
        game, state = _begun(start, gold=False)
        _java.keep((start, ()), game)
        return str(game.getTaskDescription()).strip(), state


def step(start: Start, actions: tuple[str, ...], action: str) -> State:
    """Take an action after the actions so far.

    Raises:
        JudgeFailure: The Java process failed.
    """
    with _java.lock, _java_errors():
        game = _java.games.pop((start, actions), None)
        if game is None:  # another copy of the game went on with it, or it is long ago
            game, _ = _begun(start, gold=False)
            for earlier in actions:
                game.stepJSON(earlier)
        state = _state(game.stepJSON(action))
        _java.keep((start, (*actions, action)), game)
        return state


def gold_actions(start: Start) -> tuple[str, ...]:
    """Return actions that win a game.

    Raises:
        JudgeFailure: The Java process failed.
    """
    with _java.lock, _java_errors():
        game, state = _begun(start, gold=True)
        actions = []
        for action in game.getGoldActionSequence():
            if action in state.valid:  # some are not possible, and change nothing
                state = _state(game.stepJSON(action))
                actions.append(str(action))
        return tuple(actions)


def _begun(start: Start, *, gold: bool) -> tuple[Any, State]:
    if start.game in _STATIC:
        for place in [place for place in _java.games if place[0].game == start.game]:
            del _java.games[place]
    game = _java.interface()
    if refused := game.load(start.game, start.params):
        raise ValueError(f"textworld_{start.game}: params {start.params!r}: {refused.strip()}")
    return game, _state(game.generateNewGameJSON(start.seed, start.split, gold))


@contextmanager
def _java_errors() -> Iterator[None]:
    """Turn errors of the Java process into `JudgeFailure`; the next request starts a new process."""
    from py4j.protocol import Py4JError

    try:
        yield
    except Py4JError as error:
        _java.close()
        raise JudgeFailure(
            f"the Java process of TextWorldExpress failed: {type(error).__name__}: {str(error)[:200]}"
        ) from error


def _state(text: str) -> State:
    found = json.loads(text)
    won, lost = bool(found["tasksuccess"]), bool(found["taskfailure"])
    valid = tuple(sorted(found["validActions"]))
    return State(str(found["observation"]).strip(), valid, float(found["score"]), won, lost)
