"""Play episodes of any PettingZoo AEC environment with text observations and actions.

Many games advance side by side, so that a language model answers them in one batch. This module uses PettingZoo's API,
the optional chat form of observations (`models.chat_template`) and numeric infos where present. It needs nothing
specific to our environments.

The randomness of a turn is seeded by (seed, episode, turn) alone. So results do not depend on the number of parallel
games, nor on the duration of their steps. Batch composition does depend on both, and a language model's log-probs
differ in their last digits with the batch. With `patience=math.inf` the batches are the same each time.
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
from marft_agents.trajectory import Action, EpisodeStart, IntArray, Trajectory

MAX_TURNS = 1000  # far more than language-model teams play; finds environments that never end
EPOCHS = 1  # spawn key of the task order, used by no other randomness of the run


def training_episodes(
    seed: int, update: int, groups: int, group_size: int, tasks: Sequence[Mapping[str, Any]] = ()
) -> list[EpisodeStart]:
    """Return the episodes of one update: `groups` prompt groups with `group_size` episodes each.

    Args:
        seed: Seed of the run.
        update: Index of the update; the data position of a run is a function of it.
        groups: Number of prompt groups per update.
        group_size: Number of episodes per prompt group.
        tasks: Reset options of each prompt group. Empty: the environment samples a task from its seed.
    """
    episodes = []
    for i, g in enumerate(range(update * groups, (update + 1) * groups)):
        start, options = draw_seed(seed, g), tasks[i] if tasks else None
        episodes += [EpisodeStart(g * group_size + k, g, start, options) for k in range(group_size)]
    return episodes


def tasks_of_update(seed: int, update: int, groups: int, tasks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the tasks of an update, sampled without replacement.

    Every epoch is a permutation of all tasks, seeded by (seed, epoch) alone. Epochs follow each other without a gap, so
    an update may hold the end of one and the start of the next.

    Args:
        seed: Seed of the run.
        update: Index of the update.
        groups: Number of prompt groups per update.
        tasks: Reset options of all tasks.
    """
    places = [divmod(g, len(tasks)) for g in range(update * groups, (update + 1) * groups)]
    orders = {epoch: _order(seed, epoch, len(tasks)) for epoch, _ in places}
    return [tasks[orders[epoch][place]] for epoch, place in places]


def _order(seed: int, epoch: int, count: int) -> IntArray:
    entropy = np.random.SeedSequence([seed, epoch], spawn_key=(EPOCHS,))
    return np.random.default_rng(entropy).permutation(count).astype(np.int32)


def draw_seed(seed: int, index: int) -> int:
    """Return the environment seed of the index-th prompt group of a run."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def collect(
    make_env: Callable[[], Any],
    policy: Policy,
    episodes: Sequence[EpisodeStart],
    *,
    seed: int,
    num_envs: int = 64,
    encode: Callable[[str, str], IntArray] | None = None,
    on_end: Callable[[Trajectory], None] | None = None,
    step_threads: int | None = None,
    patience: float = 0.25,
    max_turns: int = MAX_TURNS,
) -> list[Trajectory]:
    """Play episodes side by side; the policy answers all games whose steps have finished.

    Args:
        make_env: Returns a new, independent AEC environment.
        policy: Policy that answers for all agents.
        episodes: Episodes to play.
        seed: Seed of the policies' randomness.
        num_envs: Largest number of games in flight.
        encode: Maps (agent, observation) to prompt ids. Used to bootstrap truncated episodes, and to compare the
            observations of replayed prefixes with their recorded prompts. None does neither.
        on_end: Called with each finished trajectory, in the order they end.
        step_threads: Number of steps that run at once, in threads; 0 runs them one by one. None uses threads if the
            environment's metadata say `"slow_step": True`.
        patience: Longest wait for further steps, to enlarge the policy's next batch, as a share of the duration of its
            last call; `math.inf` waits for all.
        max_turns: Number of turns after which an unfinished episode fails; 0: no limit.

    Returns:
        Trajectories in the order of `episodes`. A trajectory has a `failure` if the environment raises, does not end,
        or returns an observation that is not text.
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
    """Games in flight, and the queue of waiting episodes.

    Args:
        make_env: Returns a new, independent environment.
        episodes: Episodes to play.
        num_envs: Largest number of games in flight.
        step_threads: Number of stepping threads, see `collect`.
        encode: Maps (agent, observation) to prompt ids, see `collect`.
        on_over: Called with the number and the game of each finished episode.
        max_turns: Largest number of turns, see `collect`.
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        episodes: Sequence[EpisodeStart],
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
        """True while some episode is unfinished."""
        return bool(self._queue or self._games)

    def requests(self, seed: int, patience_s: float) -> dict[int, Request]:
        """Return the turns that wait for an action; blocks until a step finishes if steps are running.

        Args:
            seed: Seed of the policies' randomness.
            patience_s: Seconds to wait for further steps once one has finished.
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
        """Play the requested turns."""
        for (index, request), action in zip(requests.items(), actions, strict=True):
            self._stepper.submit(index, self._games[index].play, request.agent, action)

    def _leave(self, index: int) -> None:
        game = self._games.pop(index)
        if game.failure is None:
            self._free.append(game.env)
        else:  # after a failure the environment is not reused
            with contextlib.suppress(Exception):
                game.env.close()
        self._on_over(index, game)

    def close(self) -> None:
        """Wait for running steps, then close all environments."""
        self._stepper.close()
        with contextlib.ExitStack() as stack:  # closes all, even if one of them raises
            for env in [*self._free, *(game.env for game in self._games.values())]:
                stack.callback(env.close)
