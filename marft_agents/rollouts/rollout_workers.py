"""Rollouts by several workers: chunks of prompt groups to idle workers, with bounded staleness.

With a largest staleness of 0 an update waits for all of its prompt groups. They are played in chunks of fixed size by
whichever worker is idle, and put in order. So results depend on the size of the chunks, and not on the number of
workers or on the order of arrival. One worker plays all of them together, as a local run does.

With a staleness S > 0 workers play ahead, by up to S updates. Prompt groups are numbered as in a local run. An update
trains on the first `groups` of them that are finished, so that a slow worker holds up nobody. The learner corrects
episodes of earlier versions by truncated importance sampling: their old log-probs are computed by the current team, and
their weight is min(pi_old / mu, C). Prompt groups older than S versions are dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from marft_agents.generation.prompt_cache import PromptCacheUse
from marft_agents.rollouts.prompt_groups import GroupSettings, PromptGroup, gather
from marft_agents.rollouts.rollout_settings import RolloutSettings
from marft_agents.rollouts.rollout_source import Rollout, chunks
from marft_agents.trajectory import Trajectory


class Played(NamedTuple):
    """Prompt groups that a worker played.

    Attributes:
        version: Number of updates that the adapters had seen.
        groups: The prompt groups, in the order they were asked for.
        seconds: Seconds that the worker's policy took to answer.
        prompts: Use of its prompt caches.
    """

    version: int
    groups: Sequence[PromptGroup]
    seconds: float
    prompts: PromptCacheUse = PromptCacheUse()


class Workers(Protocol):
    """Protocol of rollout workers; `play` is called by several threads at once, at most `count`."""

    count: int

    def publish(self, version: int) -> None:
        """Make the team's current adapters those of all later calls of `play`."""
        ...

    def play(self, numbers: Sequence[int]) -> Played:
        """Play prompt groups with the newest adapters on an idle worker; return when they are over."""
        ...


class WorkerRollouts:
    """Rollout source that plays on workers.

    Args:
        workers: Processes that play prompt groups.
        grouping: Number of prompt groups, episodes and branches; the workers play by the same.
        settings: Largest staleness and size of the chunks.
        max_updates: Number of updates of the run; nothing is played beyond.
    """

    def __init__(
        self, workers: Workers, grouping: GroupSettings, settings: RolloutSettings, *, max_updates: int
    ) -> None:
        self.workers, self.grouping, self.settings, self.max_updates = workers, grouping, settings, max_updates
        self._threads = ThreadPoolExecutor(workers.count, "marft-rollout")
        self._update = 0
        self._seconds, self._prompts = 0.0, PromptCacheUse()
        # With staleness, prompt groups are a stream. A place in it is one of the first prompt groups of an update.
        self._next = 0  # first place that was never played
        self._lost: deque[int] = deque()  # places played before a resume, but not trained on
        self._flying: dict[Future[Played], Sequence[int]] = {}
        self._ready: dict[int, Arrived] = {}
        self._trained: list[Arrived] = []
        self._dropped = 0

    def rollout(self, update: int) -> Rollout:
        """Return the prompt groups of an update, when enough of them are played."""
        self.workers.publish(update)
        self._update, self._seconds, self._trained, self._dropped = update, 0.0, [], 0
        self._prompts = PromptCacheUse()
        if not self.settings.max_staleness:
            experience = gather(self._draw, update, self.grouping)
            return Rollout(experience, self._seconds, self._prompts.metrics())
        # The stream gives the next groups that are finished, whatever numbers a local run would have played.
        experience = gather(lambda numbers: self._take(len(numbers)), update, self.grouping)
        ages = [update - arrived.version for arrived in self._trained]
        metrics = {
            "team/staleness_mean": sum(ages) / len(ages),
            "team/staleness_max": float(max(ages)),
            "team/episodes_dropped": float(self._dropped),
        }
        return Rollout(experience, sum(arrived.seconds for arrived in self._trained), metrics)

    def _draw(self, numbers: Sequence[int]) -> list[PromptGroup]:
        """Play prompt groups by their numbers and wait for all."""
        groups = list[PromptGroup]()
        for played in self._threads.map(self.workers.play, chunks(numbers, self.settings.chunk)):
            groups += played.groups
            self._seconds += played.seconds
            self._prompts += played.prompts
        return groups

    # ------------------------------------------------------------------ with staleness

    def _take(self, count: int) -> list[PromptGroup]:
        """Return the next prompt groups that are finished and not too old, by their place in the stream."""
        self._land(timeout=0.0)
        while True:
            self._drop_old()
            self._send(count)
            if len(self._ready) >= count:
                break
            self._land(timeout=None)
        groups = []
        for place in sorted(self._ready)[:count]:
            arrived = self._ready.pop(place)
            self._trained.append(arrived)
            # Log-probs of an earlier version are those of another policy than the one that is trained.
            groups.append(arrived.group if arrived.version == self._update else inexact(arrived.group))
        return groups

    def _send(self, count: int) -> None:
        """Have workers play until `count` prompt groups are on their way, and those of the next updates."""
        ahead = min(self.settings.max_staleness, self.max_updates - self._update - 1) * self.grouping.groups
        missing = count + ahead - len(self._ready) - sum(map(len, self._flying.values()))
        places = []  # those lost by a resume come first: they are the oldest
        for _ in range(missing):
            if self._lost:
                places.append(self._lost.popleft())
            else:
                places.append(self._next)
                self._next += 1
        for part in chunks(places, self.settings.chunk):
            self._flying[self._threads.submit(self.workers.play, [self._number(place) for place in part])] = part

    def _number(self, place: int) -> int:
        """Return the number of a prompt group; extra rounds have numbers of their own, which the stream leaves out."""
        update, index = divmod(place, self.grouping.groups)
        return update * (1 + self.grouping.extra_rounds) * self.grouping.groups + index

    def _land(self, timeout: float | None) -> None:
        """Collect what is finished; wait for some of it, unless the timeout is 0."""
        for future in self._finished(timeout):
            played = future.result()  # an exception leaves the places among the flying ones
            places = self._flying.pop(future)
            share = played.seconds / len(places)  # its groups may be trained on in different updates
            for place, group in zip(places, played.groups, strict=True):
                self._ready[place] = Arrived(played.version, group, share)

    def _finished(self, timeout: float | None) -> Iterable[Future[Played]]:
        """Wait for the first that ends; a simulation with its own clock does not wait (`benchmarks/scaling.py`)."""
        return wait(self._flying, timeout, return_when=FIRST_COMPLETED).done

    def _drop_old(self) -> None:
        """Drop prompt groups that were played more than `max_staleness` updates ago, and count their episodes."""
        for place, arrived in list(self._ready.items()):
            if self._update - arrived.version > self.settings.max_staleness:
                self._dropped += len(arrived.group.episodes) + len(arrived.group.siblings)
                del self._ready[place]

    # ------------------------------------------------------------------ resume and end

    def state_dict(self) -> Mapping[str, Any]:
        """Return the place in the stream, and places whose prompt groups were neither trained on nor dropped."""
        if not self.settings.max_staleness:
            return {}
        waiting = [*self._lost, *self._ready]
        for places in self._flying.values():
            waiting += places
        return {"next": self._next, "waiting": sorted(waiting)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on in the stream; prompt groups that were not trained on are played again."""
        self._next, self._lost = state.get("next", 0), deque(state.get("waiting", ()))

    def cancel(self) -> None:
        """Send no further prompt groups; those at work go on until their workers end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Arrived(NamedTuple):
    """A prompt group that waits to be trained on.

    Attributes:
        version: Version of the adapters that played it.
        group: The prompt group.
        seconds: Seconds that the policy took to answer.
    """

    version: int
    group: PromptGroup
    seconds: float


def inexact(group: PromptGroup) -> PromptGroup:
    """Return a prompt group whose log-probs are marked as those of another distribution than the trained model's."""
    marked: dict[int, Trajectory] = {}  # a trained episode stays the same object as the played one

    def mark(trajectory: Trajectory) -> Trajectory:
        if id(trajectory) not in marked:
            turns = tuple(replace(turn, action=replace(turn.action, exact=False)) for turn in trajectory.turns)
            marked[id(trajectory)] = replace(trajectory, turns=turns)
        return marked[id(trajectory)]

    return replace(
        group,
        episodes=tuple(map(mark, group.episodes)),
        trained=tuple(map(mark, group.trained)),
        siblings=tuple(map(mark, group.siblings)),
    )
