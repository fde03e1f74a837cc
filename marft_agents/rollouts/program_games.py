"""Play episodes of programs: each asks agents by itself, when and as often as it likes, and gives the reward.

`collect` plays games that it drives. Here a program drives: its requests join the running batch when they arrive, and
each answer goes back as soon as it has ended. The random numbers of an answer follow from (seed, episode, agent, its
k-th call) alone, so a program that asks one thing after the other gets the same answers each time.

The batch is fair: of the episodes with waiting requests each gets the next row in turn.
"""

from __future__ import annotations

import contextlib
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.context_window import ContextOverflowError
from marft_agents.models.model_error import ModelError
from marft_agents.policies.policy import Policy, Request, RunningPolicy, failed_action, running_session
from marft_agents.trajectory import Action, EpisodeStart, Trajectory

AWAIT = 8  # decoding steps between two waits for programs, with endless patience
STALLED_S = 10.0  # no program has asked or ended for so long: those that are silent are no longer waited for
ROWS = 128  # most requests in the running batch where the policy does not say


@dataclass(frozen=True)
class Asked:
    """A request of a program.

    Attributes:
        place: Place of the episode among those that are played.
        agent: Number of the agent in the team, for its random numbers.
        call: Number of the agent's earlier requests in this episode.
        name: Id of the agent.
        observation: Its prompt as text, with the chat form in `messages`.
        limit: Most tokens of the answer, if fewer than the sampling parameters allow.
        stop: Texts that end the answer.
        sampling: Sampling parameters that the request names, by their names in `SamplingParams`.
        answer: Takes the action, or one with a failure; may be called from any thread.
    """

    place: int
    agent: int
    call: int
    name: str
    observation: str
    limit: int | None
    stop: tuple[str, ...]
    sampling: Mapping[str, float]
    answer: Callable[[Action], None]


class Ended(NamedTuple):
    """An episode that is over.

    Attributes:
        place: Its place among those that are played.
        trajectory: Record of the episode.
    """

    place: int
    trajectory: Trajectory


class Programs(Protocol):
    """Protocol of what runs programs, in threads or processes of its own."""

    events: queue.SimpleQueue[Asked | Ended | BaseException]

    def start(self, place: int, episode: EpisodeStart) -> None:
        """Begin an episode; its requests, and its end, come as `events` with this place."""
        ...

    def stop(self) -> None:
        """End all episodes that run; their events are dropped."""
        ...


def programs_of(env: Any) -> Programs | None:
    """Return what plays the episodes of an environment whose metadata say `plays_itself`, else None."""
    game = env.unwrapped
    if not (getattr(game, "metadata", None) or {}).get("plays_itself"):
        return None
    programs: Programs = game.programs
    return programs


def play_programs(
    programs: Programs,
    policy: Policy,
    episodes: Sequence[EpisodeStart],
    *,
    seed: int,
    num_envs: int,
    on_end: Callable[[Trajectory], None] | None = None,
    on_turn: Callable[[], None] = lambda: None,
    patience: float = 0.25,
) -> list[Trajectory]:
    """Play episodes of programs side by side; arguments as of `collect`.

    With endless patience the batch waits, now and then, until each program has asked or ended. So a program that asks
    one thing after the other meets the same batches each time, and log-probs repeat to the last digit.
    """
    with contextlib.closing(running_session(policy)) as running:
        desk = _Desk(programs, running, policy, episodes, seed, on_turn)
        try:
            return desk.play(num_envs, on_end, patient=math.isinf(patience))
        finally:
            if desk.live:
                programs.stop()


class _Desk:
    """Takes the requests of programs to a running batch, and the actions back.

    Attributes:
        live: Episodes that run, by place: requests that wait for a row of the batch.
    """

    def __init__(
        self,
        programs: Programs,
        running: RunningPolicy,
        policy: Policy,
        episodes: Sequence[EpisodeStart],
        seed: int,
        on_turn: Callable[[], None],
    ) -> None:
        self.programs, self.running, self.episodes, self.seed, self.on_turn = programs, running, episodes, seed, on_turn
        self.sampling, self.rows = sampling_of(policy), rows_of(policy)
        self.live: dict[int, deque[Asked]] = {}
        self.done: dict[int, Trajectory] = {}
        self.asked: dict[int, Asked] = {}  # number of a request in the batch -> the request
        self.silent: set[int] = set()  # places of programs that have been waited for too long

    def play(self, num_envs: int, on_end: Callable[[Trajectory], None] | None, *, patient: bool) -> list[Trajectory]:
        waiting, steps = deque(range(len(self.episodes))), 0
        while len(self.done) < len(self.episodes):
            while waiting and len(self.live) < num_envs:
                place = waiting.popleft()
                self.live[place] = deque()
                self.programs.start(place, self.episodes[place])
            if not patient or steps % AWAIT == 0:  # between two waits the clock would decide who joins
                for place in self._arrivals(await_all=patient):
                    if on_end is not None:
                        on_end(self.done[place])
            self._fill()
            if self.asked:
                steps += 1
                for number, action in self.running.advance():
                    self.asked.pop(number).answer(action)
                    self.on_turn()
            else:
                steps = 0
        return [self.done[place] for place in range(len(self.episodes))]

    def _arrivals(self, *, await_all: bool) -> list[int]:
        """Take in what has arrived; return the places of the episodes that have ended."""
        ended: list[int] = []
        if not self.asked and not any(self.live.values()):
            self._take(self.programs.events.get(), ended)
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self.programs.events.get_nowait(), ended)
        if await_all:
            busy = {request.place for request in self.asked.values()}
            until = time.monotonic() + STALLED_S
            while expected := {p for p, queued in self.live.items() if not queued} - busy - self.silent:
                try:
                    self._take(self.programs.events.get(timeout=max(0.0, until - time.monotonic())), ended)
                    until = time.monotonic() + STALLED_S
                except queue.Empty:
                    self.silent |= expected
        return ended

    def _take(self, event: Asked | Ended | BaseException, ended: list[int]) -> None:
        if isinstance(event, BaseException):
            raise event
        self.silent.discard(event.place)
        if isinstance(event, Ended):
            if event.place in self.live:
                del self.live[event.place]
                self.done[event.place] = event.trajectory
                ended.append(event.place)
        elif event.place in self.live:  # else a request that came too late
            self.live[event.place].append(event)

    def _fill(self) -> None:
        """Submit waiting requests, one of each episode in turn, while the batch has rows."""
        while len(self.asked) < self.rows and (places := sorted(p for p, queued in self.live.items() if queued)):
            for place in places[: self.rows - len(self.asked)]:
                self._submit(self.live[place].popleft())

    def _submit(self, asked: Asked) -> None:
        found = {name: getattr(self.sampling, name) for name in asked.sampling} if self.sampling else asked.sampling
        if wrong := [name for name, value in asked.sampling.items() if value != found[name]]:
            name = wrong[0]
            asked.answer(
                failed_action(
                    f"{name} = {asked.sampling[name]:g}, and the run samples with {found[name]:g}: leave it out, or "
                    "run with --client-sampling ignore"
                )
            )
            return
        entropy = [self.seed, self.episodes[asked.place].number, asked.agent, asked.call]
        generator = np.random.default_rng(np.random.SeedSequence(entropy))
        request = Request(asked.name, asked.observation, generator, asked.limit, asked.stop)
        try:
            (number,) = self.running.submit([request])
        except (ContextOverflowError, ModelError) as error:  # of this request alone: the program is told
            asked.answer(failed_action(str(error)))
            return
        self.asked[number] = asked


def sampling_of(policy: Any) -> SamplingParams | None:
    """Return the sampling parameters of a team, of a sampler for it or of a measured one; None without any."""
    for inner in (policy, getattr(policy, "policy", None)):
        for owner in (inner, getattr(inner, "team", None)):
            if isinstance(found := getattr(owner, "sampling", None), SamplingParams):
                return found
    return None


def rows_of(policy: Any) -> int:
    """Return the largest number of rows of a team's running batch."""
    return next(
        (found for one in (policy, getattr(policy, "policy", None)) if (found := getattr(one, "max_batch", None))), ROWS
    )
