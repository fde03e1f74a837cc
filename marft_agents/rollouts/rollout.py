"""Play episodes of any PettingZoo AEC environment with text observations and actions.

Many games advance side by side so that a language model answers them in one batch. Nothing here knows our
environments: what is read is PettingZoo's API, the optional chat form of observations (`chat`) and, if they are
there, numeric infos. The randomness of a turn comes from (seed, episode, turn) alone, so results do not depend on
how many games run side by side, nor on how long their steps take; but who is asked together does, and a language
model's log-probs differ in their last digits with the batch (`patience=math.inf` makes batches the same each time).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from marft_agents.policies.policy import Policy, Request
from marft_agents.rollouts.background_steps import Stepper, threads_for
from marft_agents.rollouts.running_game import LiveGame
from marft_agents.trajectory import Action, Episode, IntArray, Trajectory

MAX_TURNS = 1000  # far beyond what teams of language models play; an environment that never ends is found out
EPOCHS = 1  # spawn key of the order of tasks: no other randomness of the run shares it


def training_episodes(
    seed: int, update: int, groups: int, group_size: int, tasks: Sequence[Mapping[str, Any]] = ()
) -> list[Episode]:
    """Return the episodes of one update: `groups` task draws, each played `group_size` times.

    Args:
        seed: of the run.
        update: index of the update; the data position of a run is a function of it.
        groups: task draws per update.
        group_size: episodes per draw.
        tasks: reset options of each draw; none: the environment draws a task from its seed.
    """
    episodes = []
    for i, g in enumerate(range(update * groups, (update + 1) * groups)):
        start, options = draw_seed(seed, g), tasks[i] if tasks else None
        episodes += [Episode(g * group_size + k, g, start, options) for k in range(group_size)]
    return episodes


def tasks_of_update(seed: int, update: int, groups: int, tasks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the tasks that an update draws without replacement.

    Every epoch is a permutation of all tasks, from (seed, epoch) alone; one epoch follows the other without a gap, so
    an update may hold the end of one and the start of the next.

    Args:
        seed: of the run.
        update: index of the update.
        groups: task draws per update.
        tasks: reset options of all tasks.
    """
    places = [divmod(g, len(tasks)) for g in range(update * groups, (update + 1) * groups)]
    orders = {epoch: _order(seed, epoch, len(tasks)) for epoch, _ in places}
    return [tasks[orders[epoch][place]] for epoch, place in places]


def _order(seed: int, epoch: int, count: int) -> IntArray:
    entropy = np.random.SeedSequence([seed, epoch], spawn_key=(EPOCHS,))
    return np.random.default_rng(entropy).permutation(count).astype(np.int32)


def draw_seed(seed: int, index: int) -> int:
    """Return the environment seed of the index-th task draw of a run."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def collect(
    make_env: Callable[[], Any],
    policy: Policy,
    episodes: Sequence[Episode],
    *,
    seed: int,
    num_envs: int = 64,
    encode: Callable[[str, str], IntArray] | None = None,
    on_end: Callable[[Trajectory], None] | None = None,
    step_threads: int | None = None,
    patience: float = 0.25,
    max_turns: int = MAX_TURNS,
) -> list[Trajectory]:
    """Play episodes side by side; the policy answers those games whose steps are finished.

    Args:
        make_env: makes an independent AEC environment.
        policy: answers all agents.
        episodes: what to play.
        seed: of the policies' randomness.
        num_envs: games in flight.
        encode: (agent, observation) -> prompt ids, to bootstrap truncated episodes and to compare what is seen while
            prefixes are played with their recorded prompts; None does neither.
        on_end: called with each finished trajectory, in the order they end.
        step_threads: steps that run at once, in threads; 0 takes them one by one. None: in threads if the
            environment's metadata say `"slow_step": True`.
        patience: to make the policy's next batch larger, wait for more steps, at most this share of the time that
            the policy took for its last; `math.inf` waits for all.
        max_turns: an episode that is not over after so many turns has failed; 0: no limit.

    Returns:
        Trajectories in the order of `episodes`. An environment that raises, shows what is no text or does not end gives
        a trajectory with `failure`.
    """
    done: dict[int, Trajectory] = {}

    def keep(index: int, game: LiveGame) -> None:
        done[index] = game.trajectory()
        if on_end is not None:
            on_end(done[index])

    patience_s = math.inf if math.isinf(patience) else 0.0
    with contextlib.closing(_Floor(make_env, episodes, num_envs, step_threads, encode, keep, max_turns)) as floor:
        while floor.busy:
            requests = floor.requests(seed, patience_s)
            if requests:
                asked = time.perf_counter()
                actions = policy.act(list(requests.values()))
                patience_s = patience * (time.perf_counter() - asked)
                floor.play(requests, actions)
    return [done[i] for i in range(len(episodes))]


class _Floor:
    """The games in flight, and the episodes that wait for a free place.

    Args:
        make_env: makes an independent environment.
        episodes: what to play.
        num_envs: places.
        step_threads: see `collect`.
        encode: see `collect`.
        on_over: called with the number and the game of each episode that is over.
        max_turns: see `collect`.
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        episodes: Sequence[Episode],
        num_envs: int,
        step_threads: int | None,
        encode: Callable[[str, str], IntArray] | None,
        on_over: Callable[[int, LiveGame], None],
        max_turns: int,
    ) -> None:
        self._make_env, self._num_envs, self._encode, self._on_over = make_env, num_envs, encode, on_over
        self._max_turns = max_turns
        self._queue = list(enumerate(episodes))[::-1]
        self._games: dict[int, LiveGame] = {}
        self._free = [make_env()] if episodes else []
        self._stepper = Stepper(threads_for(self._free[0] if episodes else None, step_threads, num_envs))

    @property
    def busy(self) -> bool:
        """Some episode is not over."""
        return bool(self._queue or self._games)

    def requests(self, seed: int, patience_s: float) -> dict[int, Request]:
        """Return the turns that wait for an action; waits for a step to finish where steps are under way.

        Args:
            seed: of the policies' randomness.
            patience_s: once a step has finished, wait so long for others.
        """
        found: dict[int, Request] = {}
        for index in self._stepper.finished(patience_s):
            self._ask(index, seed, found)
        while self._queue and len(self._games) < self._num_envs:
            index, episode = self._queue.pop()
            env = self._free.pop() if self._free else self._make_env()
            game = LiveGame(env, episode, self._encode, self._max_turns)
            self._games[index] = game
            game.start()
            if episode.prefix:
                self._stepper.submit(index, game.replay)
            else:
                self._ask(index, seed, found)
        return found

    def _ask(self, index: int, seed: int, found: dict[int, Request]) -> None:
        request = self._games[index].request(seed)
        if request is None:
            self._leave(index)
        else:
            found[index] = request

    def play(self, requests: Mapping[int, Request], actions: Sequence[Action]) -> None:
        """Take the turns that were asked for."""
        for (index, request), action in zip(requests.items(), actions, strict=True):
            self._stepper.submit(index, self._games[index].play, request.agent, action)

    def _leave(self, index: int) -> None:
        game = self._games.pop(index)
        if game.failure is None:
            self._free.append(game.env)
        else:  # an environment that broke once is not trusted with the next episode
            with contextlib.suppress(Exception):
                game.env.close()
        self._on_over(index, game)

    def close(self) -> None:
        """Wait for the steps under way, then close all environments."""
        self._stepper.close()
        with contextlib.ExitStack() as stack:  # closes all, whatever one of them raises
            for env in [*self._free, *(game.env for game in self._games.values())]:
                stack.callback(env.close)
