"""Running batches that several threads feed, such as the questions of a server.

One thread samples, since a model has state of the pass that runs, such as the active adapters. Others wait for actions.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from marft_agents.policies.policy import FunctionPolicy, Policy, Request, RunningPolicy, running_session
from marft_agents.trajectory import Action

if TYPE_CHECKING:
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.policies.language_model import LanguageModelTeam


@dataclass(frozen=True)
class _Joining:
    """A thread that enters (1) or leaves (-1) the batch of some sampling parameters."""

    sampling: SamplingParams
    change: int


@dataclass(frozen=True)
class _Asked:
    """Requests of a thread, and the future of their actions."""

    sampling: SamplingParams
    requests: Sequence[Request]
    actions: Future[list[Action]]


class RunningBatches:
    """One running batch for all threads that use the same sampling parameters.

    Args:
        team: The team that answers; nothing else may use it.
    """

    def __init__(self, team: LanguageModelTeam) -> None:
        self._team = team
        self._arrived: queue.SimpleQueue[_Joining | _Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._sample, name="marft-batches", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def joined(self, sampling: SamplingParams) -> Iterator[Policy]:
        """Return a policy whose requests join the batch of some sampling parameters, from any thread."""

        def answer(requests: Sequence[Request]) -> list[Action]:
            if not requests:
                return []
            asked = _Asked(sampling, requests, Future())
            self._arrived.put(asked)
            return asked.actions.result()

        self._arrived.put(_Joining(sampling, 1))
        try:
            yield FunctionPolicy(answer)
        finally:
            self._arrived.put(_Joining(sampling, -1))

    def close(self) -> None:
        """Stop sampling; nobody waits for an action any more."""
        self._arrived.put(None)
        self._thread.join()

    def _sample(self) -> None:
        batches: dict[SamplingParams, _Batch] = {}
        while True:
            for item in self._arrivals(wait=not any(batch.waits for batch in batches.values())):
                if item is None:
                    return
                if item.sampling not in batches:
                    batches[item.sampling] = _Batch(partial(self._open, item.sampling))
                batch = batches[item.sampling]
                if isinstance(item, _Asked):
                    batch.add(item)
                    continue
                batch.members += item.change
                if not batch.members:
                    batches.pop(item.sampling).close()
            for batch in batches.values():
                batch.advance()

    def _open(self, sampling: SamplingParams) -> RunningPolicy:
        return running_session(self._team if sampling == self._team.sampling else self._team.under(sampling))

    def _arrivals(self, *, wait: bool) -> Iterator[_Joining | _Asked | None]:
        if wait:
            yield self._arrived.get()
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._arrived.get_nowait()


class _Batch:
    """Running batch of some threads.

    Args:
        open_session: Returns the session that answers; called at the first request, and again after a failure.

    Attributes:
        members: Number of threads in the batch.
    """

    def __init__(self, open_session: Callable[[], RunningPolicy]) -> None:
        self.members = 0
        self._open_session = open_session
        self._running: RunningPolicy | None = None
        self._waiting: dict[int, tuple[_Asked, dict[int, Action], int]] = {}  # number -> its group, answers and place

    @property
    def waits(self) -> bool:
        """True while a thread waits for an action."""
        return bool(self._waiting)

    def add(self, asked: _Asked) -> None:
        """Queue requests; if one is refused, or there is no session for them, the thread gets the error."""
        try:
            if self._running is None:
                self._running = self._open_session()
            numbers = self._running.submit(asked.requests)
        except Exception as error:
            asked.actions.set_exception(error)
            return
        found: dict[int, Action] = {}
        self._waiting.update((number, (asked, found, place)) for place, number in enumerate(numbers))

    def advance(self) -> None:
        """Sample on; if that fails, all threads that wait get the error, and the next request begins a new session."""
        if self._running is None or not self._waiting:
            return
        try:
            ended = self._running.advance()
        except Exception as error:
            for actions in {asked.actions for asked, _, _ in self._waiting.values()}:
                actions.set_exception(error)
            self._waiting.clear()
            self.close()
            return
        for number, action in ended:
            if number not in self._waiting:  # another request of its group was refused
                continue
            asked, found, place = self._waiting.pop(number)
            found[place] = action
            if len(found) == len(asked.requests):
                asked.actions.set_result([found[k] for k in range(len(found))])

    def close(self) -> None:
        """Drop what runs."""
        if self._running is not None:
            self._running.close()
            self._running = None
