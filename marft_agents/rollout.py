"""Play episodes of any PettingZoo AEC environment with text observations and actions.

Many games advance side by side so that a language model answers them in one batch. Nothing here knows our
environments: what is read is PettingZoo's API, the optional chat form of observations (`chat`) and, if they are
there, numeric infos. The randomness of a turn comes from (seed, episode, turn) alone, so results do not depend on
how many games run side by side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marft_agents.policy import Policy, Request
from marft_agents.records import Action, IntArray, Trajectory, Turn

SCALARS = (int, float, np.number, np.bool_)
NO_TOKENS: IntArray = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Episode:
    """What to play.

    Attributes:
        number: unique in the run; seeds the policies' randomness.
        group: episodes of one group start from the same state.
        seed: for `reset`.
        options: for `reset`; None if there are none.
    """

    number: int
    group: int
    seed: int
    options: Mapping[str, Any] | None = None


def training_episodes(seed: int, update: int, groups: int, group_size: int) -> list[Episode]:
    """Return the episodes of one update: `groups` task draws, each played `group_size` times.

    Args:
        seed: of the run.
        update: index of the update; the data position of a run is a function of it.
        groups: task draws per update.
        group_size: episodes per draw.
    """
    episodes = []
    for g in range(update * groups, (update + 1) * groups):
        start = draw_seed(seed, g)
        episodes += [Episode(g * group_size + k, g, start) for k in range(group_size)]
    return episodes


def draw_seed(seed: int, index: int) -> int:
    """Return the environment seed of the index-th task draw of a run."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


@dataclass
class _Game:
    """One live episode."""

    env: Any
    episode: Episode
    turns: list[Turn] = field(default_factory=list)
    acted: set[str] = field(default_factory=set)
    round: int = 0
    truncated: bool = False
    following: tuple[str, str] = ("", "")  # after a truncation: the agent whose value is next, what it sees
    infos: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None


def collect(
    make_env: Callable[[], Any],
    policy: Policy,
    episodes: Sequence[Episode],
    *,
    seed: int,
    num_envs: int = 64,
    encode: Callable[[str, str], IntArray] | None = None,
    on_end: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Play episodes side by side.

    Args:
        make_env: makes an independent AEC environment.
        policy: answers all agents.
        episodes: what to play.
        seed: of the policies' randomness.
        num_envs: games in flight.
        encode: (agent, observation) -> prompt ids, to bootstrap truncated episodes; None records no prompt.
        on_end: called with each finished trajectory, in the order they end.

    Returns:
        Trajectories in the order of `episodes`. An environment that raises gives a trajectory with `failure`.
    """
    waiting = list(enumerate(episodes))[::-1]
    envs: list[Any] = []
    live: dict[int, _Game] = {}
    done: dict[int, Trajectory] = {}

    def finish(index: int, game: _Game) -> None:
        done[index] = _trajectory(game, encode)
        if game.failure is None:
            envs.append(game.env)
        else:  # an environment that broke once is not trusted with the next episode
            with contextlib.suppress(Exception):
                game.env.close()
        if on_end is not None:
            on_end(done[index])

    while waiting or live:
        while waiting and len(live) < num_envs:
            index, episode = waiting.pop()
            game = _start(envs.pop() if envs else make_env(), episode)
            if _awaits_action(game):
                live[index] = game
            else:
                finish(index, game)
        requests: dict[int, Request] = {}
        for index, game in list(live.items()):
            request = _request(game, seed)
            if request is None:
                finish(index, live.pop(index))
            else:
                requests[index] = request
        actions = policy.act(list(requests.values())) if requests else []
        for (index, request), action in zip(requests.items(), actions, strict=True):
            game = live[index]
            _play(game, request.agent, action)
            if not _awaits_action(game):
                finish(index, live.pop(index))
    for env in envs:
        env.close()
    return [done[i] for i in range(len(episodes))]


def _start(env: Any, episode: Episode) -> _Game:
    game = _Game(env, episode)
    with _recorded(game, "reset"):
        env.reset(seed=episode.seed, options=None if episode.options is None else dict(episode.options))
    return game


@contextlib.contextmanager
def _recorded(game: _Game, doing: str) -> Iterator[None]:
    """Turn what an environment raises into the game's failure: a record with a cause, not a crash of the run."""
    try:
        yield
    except Exception as error:
        game.failure = f"{doing}: {type(error).__name__}: {error}"


def _awaits_action(game: _Game) -> bool:
    """Step dead agents out of the way; return True if a living agent must act."""
    env = game.env
    while game.failure is None and env.agents:
        agent = env.agent_selection
        if not (env.terminations[agent] or env.truncations[agent]):
            return True
        with _recorded(game, f"last step of {agent}"):
            env.step(None)
    return False


def _request(game: _Game, seed: int) -> Request | None:
    """Return the waiting turn; None if the environment can not say what its agent sees."""
    agent = game.env.agent_selection
    randomness = np.random.SeedSequence([seed, game.episode.number, len(game.turns)])
    with _recorded(game, f"observation of {agent}"):
        return Request(agent, game.env.observe(agent), np.random.default_rng(randomness))
    return None


def _play(game: _Game, agent: str, action: Action) -> None:
    env = game.env
    game.round = _round(game, agent)
    with _recorded(game, f"step of {agent}"):
        env.step(action.text)
        reward = float(np.mean([float(r) for r in env.rewards.values()])) if env.rewards else 0.0
        game.turns.append(Turn(agent, action, reward, game.round))
        game.infos = numeric(env.infos.get(agent, {}))
        cut = [a for a in env.agents if env.truncations[a] and not env.terminations[a]]
        game.truncated = bool(cut)
        game.following = _following(game, cut)


def _following(game: _Game, cut: Sequence[str]) -> tuple[str, str]:
    """Return who of the agents cut off by a truncation would act next, and its observation; "", "" if none.

    Only agents that play tokens have a value. The next round would be opened by who opened this one. What it sees
    is read at once, since an environment forgets its dead agents.
    """
    valued = [turn for turn in game.turns if turn.agent in cut and len(turn.action.token_ids)]
    opening = [turn for turn in valued if turn.round == game.round] or valued
    return (opening[0].agent, game.env.observe(opening[0].agent)) if opening else ("", "")


def _round(game: _Game, agent: str) -> int:
    """Return the round of this turn: what infos say, else a new one starts when an agent acts again."""
    told = game.env.infos.get(agent, {}).get("round")
    if isinstance(told, SCALARS):
        return int(told)
    if agent in game.acted:
        game.acted.clear()
        game.round += 1
    game.acted.add(agent)
    return game.round


def numeric(infos: Mapping[str, Any]) -> dict[str, float]:
    """Keep the scalar numeric entries of an info dictionary."""
    return {key: float(value) for key, value in infos.items() if isinstance(value, SCALARS)}


def _trajectory(game: _Game, encode: Callable[[str, str], IntArray] | None) -> Trajectory:
    final_agent, final_prompt = "", NO_TOKENS
    if encode is not None and game.failure is None and game.following[0]:
        final_agent = game.following[0]
        final_prompt = encode(*game.following)
    return Trajectory(
        seed=game.episode.seed,
        group=game.episode.group,
        turns=tuple(game.turns),
        terminated=not game.truncated,
        truncated=game.truncated,
        final_agent=final_agent,
        final_prompt_ids=final_prompt,
        infos=game.infos,
        failure=game.failure,
    )
