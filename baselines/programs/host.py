"""Runs the programs of an environment: their processes, and the server that they ask, in one thread.

The thread lives as long as the host, so that a process that plays many episodes outlives an update. It ends with
`close`, when nothing refers to the host any more, or with the program that made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baselines.gateway.http import server_of
from baselines.programs.process import ProgramError, ProgramProcess, environment_of
from baselines.programs.recorded_episode import RecordedEpisode
from baselines.programs.server import Desk, program_app
from baselines.programs.settings import ProgramSettings, argv_of, is_function
from baselines.programs.tasks import ProgramTasks
from marft_agents.rollouts.program_games import Asked, Ended
from marft_agents.trajectory import EpisodeStart

HOST = "127.0.0.1"
IDLE_S = 86_400.0  # in which a program that holds a connection may be silent: its episode has a limit of its own


@dataclass(frozen=True)
class _GatewayLimits:
    """Limits of the server on requests, see `RequestLimits`."""

    request_timeout: float
    max_body_bytes: int = 8_000_000
    max_questions: int = 8192


@dataclass(frozen=True)
class Program:
    """A program with what it plays.

    Attributes:
        command: A command, or MODULE:FUNCTION.
        agents: Agents of the team.
        tasks: Tasks that it plays.
        settings: How it is run, and its limits.
        folder: Its working directory; None: that of this process.
    """

    command: str
    agents: Sequence[str]
    tasks: ProgramTasks
    settings: ProgramSettings
    folder: str | None = None


class ProgramHost:
    """Plays the episodes of a program; see `marft_agents.rollouts.program_games.Programs`.

    Args:
        program: The program, with what it plays.

    Attributes:
        events: Requests of programs, and ends of episodes.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.events: queue.SimpleQueue[Asked | Ended | BaseException] = queue.SimpleQueue()
        self._room: _Room | None = None
        self._close: Any = None

    def __deepcopy__(self, memo: object) -> ProgramHost:
        return self  # all games of an environment share it

    def start(self, place: int, episode: EpisodeStart) -> None:
        """Begin an episode, see `Programs`."""
        if self._room is None:
            self._room = _Room(self.program, self.events)
            self._close = weakref.finalize(self, self._room.close)
        self._room.submit(place, episode)

    def stop(self) -> None:
        """End all that runs, and forget its events."""
        self.close()
        with contextlib.suppress(queue.Empty):
            while True:
                self.events.get_nowait()

    def close(self) -> None:
        """End all processes and the server; the next episode begins anew."""
        if self._close is not None:
            self._close()
        self._room = self._close = None


class _Room:
    """The thread of a host with its server and processes; it does not refer to the host.

    Args:
        program: The program, with what it plays.
        events: Queue of events.
    """

    def __init__(self, program: Program, events: queue.SimpleQueue[Asked | Ended | BaseException]) -> None:
        self.program, self.events, self.settings = program, events, program.settings
        self.argv = argv_of(program.command)
        self.most = 0 if is_function(program.command) else self.settings.program_episodes
        self.desks: dict[str, Desk] = {}
        self._idle: list[tuple[Desk, ProgramProcess]] = []
        self._playing: set[asyncio.Task[None]] = set()
        self._processes: set[ProgramProcess] = set()
        self._noted: set[str] = set()
        self._listening = socket.create_server((HOST, 0))
        self.port = self._listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._work, name="marft-programs", daemon=True)
        self._thread.start()

    def submit(self, place: int, episode: EpisodeStart) -> None:
        """Begin an episode; from any thread."""
        self._loop.call_soon_threadsafe(self._begin, place, episode)

    def close(self) -> None:
        """End all processes, then the server and the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()

    def _work(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self.events.put(error)
        finally:
            self._loop.close()
            self._listening.close()

    async def _serve(self) -> None:
        ignore = self.settings.client_sampling == "ignore"
        app = program_app(self.desks, self.program.agents, ignore=ignore, note=self._note)
        limits = _GatewayLimits(self.settings.program_seconds)
        server = server_of(app, limits, HOST, header_seconds=IDLE_S, idle=limits.max_questions)
        serving = asyncio.create_task(server.serve(sockets=[self._listening]))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({serving, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in self._playing:
                task.cancel()
            await asyncio.gather(*self._playing, return_exceptions=True)
            await asyncio.gather(*(process.end() for process in self._processes), return_exceptions=True)
            server.should_exit = server.force_exit = True
            await serving

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            warnings.warn(text, stacklevel=2)

    def _begin(self, place: int, episode: EpisodeStart) -> None:
        task = asyncio.create_task(self._play(place, episode))
        self._playing.add(task)
        task.add_done_callback(self._playing.discard)

    async def _play(self, place: int, start: EpisodeStart) -> None:
        """Play an episode, and put its end among the events."""
        began = time.perf_counter()
        task, line = self.program.tasks.episode(start)
        episode = RecordedEpisode(place, start, task, self.program.agents, self.settings, self.events.put)
        report, failure = None, None
        try:
            desk, process = self._idle.pop() if self._idle else self._opened()
            desk.episode = episode
            try:
                report = await self._report(process, line, episode)
            except (ProgramError, OSError) as error:
                failure = str(error)
            finally:
                episode.close()
                desk.episode = None
                await self._leave(desk, process, broken=report is None)
        except BaseException as error:
            failure = f"{type(error).__name__}: {error}"
            raise
        finally:
            seconds = time.perf_counter() - began
            self.events.put(Ended(place, episode.trajectory(report, failure, seconds)))

    def _opened(self) -> tuple[Desk, ProgramProcess]:
        desk = Desk()
        self.desks[desk.id] = desk
        url = f"http://{HOST}:{self.port}/episodes/{desk.id}/v1"
        environment, limit = environment_of(url, desk.key), self.settings.program_output
        process = ProgramProcess(self.argv, environment, limit, self.program.folder)
        self._processes.add(process)
        return desk, process

    async def _report(self, process: ProgramProcess, line: str, episode: RecordedEpisode) -> Any:
        """Return the report of an episode.

        Raises:
            ProgramError: It took too long or exceeded a limit, or see `ProgramProcess.play`.
        """
        playing = asyncio.create_task(process.play(line, alone=self.most == 1))
        try:
            both: set[asyncio.Future[Any]] = {playing, episode.broken}
            began, ended = self._loop.time(), set[asyncio.Future[Any]]()
            while not ended:
                left = self.settings.program_seconds - (self._loop.time() - began - episode.waited())
                if left <= 0:
                    seconds = f"{self.settings.program_seconds:g} s of its own"
                    raise ProgramError(f"it did not end in {seconds} (--program-seconds)")
                ended, _ = await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if episode.broken.done():
                raise ProgramError(episode.broken.result())
            return playing.result()
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)

    async def _leave(self, desk: Desk, process: ProgramProcess, *, broken: bool) -> None:
        """Keep a process for further episodes, or end it."""
        if not broken and self.most != 1 and (not self.most or process.played < self.most):
            self._idle.append((desk, process))
            return
        del self.desks[desk.id]
        await process.end()
        self._processes.discard(process)
