"""Play episodes of any PettingZoo AEC environment with text observations and actions.

Many games advance side by side, so that a language model answers them in one batch. A game whose step has ended joins
the running batch at once. So do the agents of one game that are ready at the same time, where its infos say so
(`RecordedGame`). This module uses PettingZoo's API, the optional chat form of observations (`models.chat_template`) and
numeric infos where present. It needs nothing specific to our environments.

The randomness of a turn is seeded by (seed, episode, turn) alone. So results do not depend on the number of parallel
games, nor on the duration of their steps. Batch composition does depend on both, and a language model's log-probs
differ in their last digits with the batch. With `patience=math.inf` the batches are the same each time.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from marft_agents.policies.policy import Policy, RunningPolicy, WholeBatches, running_session
from marft_agents.rollouts.program_games import play_programs, programs_of
from marft_agents.rollouts.recorded_game import RecordedGame
from marft_agents.trajectory import Action, EpisodeStart, IntArray, Trajectory
from marft_common.parallel_games import MAX_THREADS, BackgroundJobs, ParallelGames

MAX_TURNS = 1000  # far more than language-model teams play; finds environments that never end
EPOCHS = 1  # spawn key of the task order, used by no other randomness of the run

AWAIT = 8  # decoding steps between two waits for slow steps of games: a count, so the clock decides nothing


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
    numbers = range(update * groups, (update + 1) * groups)
    episodes: list[EpisodeStart] = []
    for number, options in zip(numbers, tasks or (None,) * groups, strict=True):
        episodes += group_episodes(seed, number, group_size, options)
    return episodes


def group_episodes(
    seed: int, number: int, group_size: int, options: Mapping[str, Any] | None = None
) -> list[EpisodeStart]:
    """Return the episodes of one prompt group.

    Args:
        seed: Seed of the run.
        number: Number of the prompt group in the run.
        group_size: Number of its episodes.
        options: Reset options; None: the environment samples a task from its seed.
    """
    start = draw_seed(seed, number)  # one seed, so all play the same task; their numbers seed the policies
    return [EpisodeStart(number * group_size + k, number, start, options) for k in range(group_size)]


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
    chosen = []
    for group in range(update * groups, (update + 1) * groups):
        epoch, place = divmod(group, len(tasks))
        chosen.append(tasks[_order(seed, epoch, len(tasks))[place]])
    return chosen


@functools.lru_cache(maxsize=4)  # prompt groups of an update look up their tasks one by one
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
    on_turn: Callable[[], None] = lambda: None,
    step_threads: int | None = None,
    patience: float = 0.25,
    max_turns: int = MAX_TURNS,
    valued: Collection[str] | None = None,
) -> list[Trajectory]:
    """Play episodes side by side; the policy answers all games whose steps have finished.

    Args:
        make_env: Returns a new, independent AEC environment.
        policy: Policy that answers for all agents, in a session of these episodes.
        episodes: Episodes to play.
        seed: Seed of the policies' randomness.
        num_envs: Largest number of games in flight.
        encode: Maps (agent, observation) to prompt ids. Used to bootstrap truncated episodes, and to compare the
            observations of replayed prefixes with their recorded prompts. None does neither.
        on_end: Called with each finished trajectory, in the order they end.
        on_turn: Called after each action of the policy.
        step_threads: Number of steps that run at once, in threads; 0 runs them one by one. None uses threads if the
            environment's metadata say `"slow_step": True`.
        patience: Longest wait for further steps, to enlarge the policy's next batch, as a share of the duration of its
            last call; `math.inf` waits for all.
        max_turns: Number of turns after which an unfinished episode fails; 0: no limit.
        valued: Agents that may be bootstrapped; None for all that play tokens.

    Returns:
        Trajectories in the order of `episodes`. A trajectory has a `failure` if the environment raises, does not end,
        or returns an observation that is not text.

    Raises:
        ValueError: `num_envs` is below 1.
    """
    spare = [make_env()] if episodes else []
    threads = threads_for(spare[0] if spare else None, step_threads, num_envs)
    if spare and (programs := programs_of(spare[0])) is not None:
        return play_programs(
            programs,
            policy,
            episodes,
            seed=seed,
            num_envs=num_envs,
            on_end=on_end,
            on_turn=on_turn,
            patience=patience,
        )
    jobs = BackgroundJobs(threads, "marft-step")
    queue = list(enumerate(episodes))[::-1]
    record = partial(RecordedGame, encode=encode, max_turns=max_turns, valued=valued)
    with contextlib.ExitStack() as stack:
        games = stack.enter_context(contextlib.closing(ParallelGames[RecordedGame](make_env, jobs, spare)))
        running = stack.enter_context(contextlib.closing(running_session(policy)))
        feeds = not isinstance(running, WholeBatches)  # requests may join a batch that runs
        turns = _OpenTurns(games, running, seed, on_end)
        patience_s, decoded = math.inf if math.isinf(patience) else 0.0, 0

        while queue or len(games):
            if not (feeds and turns.asked):  # the policy would begin a new batch: wait for some more games to join it
                stepped = jobs.finished(patience_s)
            elif not (threads and math.isinf(patience)):
                stepped = jobs.done()
            else:  # the clock must decide nothing: all steps are awaited, at fixed counts of decoding steps
                stepped = jobs.finished(patience_s) if decoded % AWAIT == 0 else []
            for index in stepped:
                turns.ask(index)
            while queue and len(games) < num_envs:
                index, episode = queue.pop()
                game = games.enter(index, partial(record, episode=episode))
                game.start()
                if episode.prefix:
                    jobs.submit(index, game.replay)
                else:
                    turns.ask(index)
            if turns.asked:
                began = time.perf_counter()
                ended = running.advance()
                decoded += 1
                patience_s = patience * (time.perf_counter() - began)
                for number, action in ended:
                    index, actions = turns.answer(number, action)
                    on_turn()
                    if actions is not None:
                        jobs.submit(index, games[index].play, actions)
    return [turns.done[i] for i in range(len(episodes))]


class _OpenTurns:
    """Turns that the policy has been asked for, and the games that wait for them.

    Args:
        games: Games in flight.
        running: Session of the policy.
        seed: Seed of the policies' randomness.
        on_end: Called with each finished trajectory.

    Attributes:
        asked: Game and agent of each open request, by the request's number.
        done: Trajectories of finished games, by index.
    """

    def __init__(
        self,
        games: ParallelGames[RecordedGame],
        running: RunningPolicy,
        seed: int,
        on_end: Callable[[Trajectory], None] | None,
    ) -> None:
        self._games, self._running, self._seed, self._on_end = games, running, seed, on_end
        self.asked: dict[int, tuple[int, str]] = {}
        self.done: dict[int, Trajectory] = {}
        self._actions: dict[int, dict[str, Action | None]] = {}  # by game and agent; None: not there yet

    def ask(self, index: int) -> None:
        """Ask for the turns of a game that can be generated now; a game without any is over and leaves."""
        game = self._games[index]
        requests = game.requests(self._seed)
        if requests:
            for number, request in zip(self._running.submit(requests), requests, strict=True):
                self.asked[number] = (index, request.agent)
            self._actions[index] = {request.agent: None for request in requests}
            return
        # Its record may still fail the game, so it is made before the environment is used again.
        self.done[index] = game.trajectory()
        self._games.leave(index)
        if self._on_end is not None:
            self._on_end(self.done[index])

    def answer(self, number: int, action: Action) -> tuple[int, dict[str, Action] | None]:
        """Take in an action; return the index of its game, and all actions of the game once none is missing."""
        index, agent = self.asked.pop(number)
        actions = self._actions[index]
        actions[agent] = action
        there = {agent: action for agent, action in actions.items() if action is not None}
        if len(there) < len(actions):
            return index, None
        del self._actions[index]
        return index, there


def threads_for(env: Any, threads: int | None, num_envs: int) -> int:
    """Return the number of threads that step games of an environment.

    Args:
        env: One of the environments; `metadata["slow_step"]` declares that its steps wait for something.
        threads: Number requested by the user. None chooses one per game up to 32 for slow environments, else 0,
            since fast steps cost less than handing them over.
        num_envs: Number of games in flight.

    Raises:
        ValueError: The requested number is negative, or there are no games.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs: found {num_envs}, wanted at least 1")
    if threads is None:
        slow = (getattr(env, "metadata", None) or {}).get("slow_step", False)
        return min(num_envs, MAX_THREADS) if slow else 0
    if threads < 0:
        raise ValueError(f"step_threads: found {threads}, wanted at least 1, or 0 for none")
    return threads
