"""The conformance kit: what an environment must pass to be used by others, ours or not.

It runs PettingZoo's and Gymnasium's own tests unmodified, then checks what they leave open: all agents end
together, infos are numbers with fixed keys, `observe` is pure, a copy in mid-game goes on alike, global
generators stay untouched, any text is an action; and, of a Flex-MG, that exactly what D allows is seen and
that records replay.

    report = check_environment(lambda **kwargs: marft_envs.make("marft/math_duo-v0", **kwargs))
    print(report)
"""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from pettingzoo import AECEnv

from marft_envs.game import FlexMG
from marft_envs.trace import Episode, replay
from marft_envs.wrappers import SharedPolicyEnv, TurnParallel

AnyAEC = AECEnv[Any, Any, Any]
Make = Callable[..., AnyAEC]
_MAX_TURNS = 10_000


@dataclass(frozen=True)
class Check:
    """One named check; `detail` says what was wrong."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """All checks of an environment, in the order they ran."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """All passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        return "\n".join(
            f"{'ok  ' if check.passed else 'FAIL'} {check.name}" + (f": {check.detail}" if check.detail else "")
            for check in self.checks
        )


class _BrokenError(AssertionError):
    """An invariant does not hold."""


def check_environment(make: Make, *, cycles: int = 100) -> Report:
    """Run every check on an environment with text actions.

    Args:
        make: Makes a new environment; takes `render_mode`.
        cycles: How long the tests of PettingZoo run.

    Returns:
        The report; a check that raises counts as failed and does not stop the others.
    """
    checks = dict(_GENERAL)
    if isinstance(_quiet(make).unwrapped, FlexMG):
        checks |= _OF_THE_GAME
    return Report(tuple(_run(name, check, make, cycles) for name, check in checks.items()))


def _run(name: str, check: Callable[[Make, int], None], make: Make, cycles: int) -> Check:
    try:
        _quiet(lambda: check(make, cycles))
    except Exception as error:
        return Check(name, False, f"{type(error).__name__}: {error}"[:500])
    return Check(name, True)


def _quiet(call: Callable[[], Any]) -> Any:
    """Without the prints and warnings of the tests of others (such as "probably should be a Box")."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


# ----------------------------------------------------------- tests of others


def _api(make: Make, cycles: int) -> None:
    from pettingzoo.test import api_test

    api_test(make(), num_cycles=cycles)
    api_test(make().unwrapped, num_cycles=cycles)


def _seed(make: Make, cycles: int) -> None:
    from pettingzoo.test import seed_test

    seed_test(make, num_cycles=cycles)


def _parallel_api(make: Make, cycles: int) -> None:
    from pettingzoo.test import parallel_api_test

    parallel_api_test(TurnParallel(make()), num_cycles=cycles)


def _parallel_seed(make: Make, cycles: int) -> None:
    from pettingzoo.test import parallel_seed_test

    parallel_seed_test(lambda: TurnParallel(make()), num_cycles=cycles)


def _render(make: Make, cycles: int) -> None:
    from pettingzoo.test import render_test

    run: Callable[..., None] = render_test  # its annotation forgets that `make` takes render_mode
    run(make)


def _gymnasium(make: Make, cycles: int) -> None:
    from gymnasium.utils.env_checker import check_env

    env = make()
    if len({(env.observation_space(agent), env.action_space(agent)) for agent in env.possible_agents}) == 1:
        check_env(SharedPolicyEnv(env))


# ------------------------------------------------------------- our invariants


def _play(env: AnyAEC, say: Callable[[str], str]) -> Iterator[tuple[AnyAEC, str]]:
    """Yield before each turn of a live agent; ends when all have ended, without draining."""
    for _ in range(_MAX_TURNS):
        agent = env.agent_selection
        if env.terminations[agent] or env.truncations[agent]:
            return
        yield env, agent
        env.step(say(agent))
    raise _BrokenError(f"the game did not end within {_MAX_TURNS} turns")


def _ends_together(make: Make, cycles: int) -> None:
    env = make()
    env.reset(seed=1)
    for game, _ in _play(env, lambda agent: agent):
        _require(not any(game.terminations.values()), f"a live game has terminations {game.terminations}")
    flags = {(env.terminations[agent], env.truncations[agent]) for agent in env.possible_agents}
    _require(len(flags) == 1, f"not all agents ended with the same flags: {env.terminations}, {env.truncations}")
    _require(len(set(env.rewards.values())) == 1, f"the last rewards differ: {env.rewards}")
    _require(all(np.isfinite(list(env.rewards.values()))), f"a reward is not finite: {env.rewards}")


def _infos(make: Make, cycles: int) -> None:
    env = make()
    env.reset(seed=1)
    keys = set(env.infos[env.agent_selection])
    seen = [dict(env.infos) for _ in _play(env, lambda agent: agent)]
    for infos in [*seen, env.infos]:
        _require(set(infos) == set(env.possible_agents), f"infos of {sorted(infos)} only")
        for agent, info in infos.items():
            _require(set(info) == keys, f"the keys of {agent} changed: {sorted(set(info) ^ keys)}")
            strange = [key for key, value in info.items() if not isinstance(value, Number | np.ndarray)]
            _require(not strange, f"{agent}: {strange} hold no numbers")


def _pure(make: Make, cycles: int) -> None:
    env, other = make(), make()
    env.reset(seed=1)
    other.reset(seed=1)
    for game, agent in _play(env, lambda agent: agent):
        for _ in range(2):
            for anyone in game.possible_agents:
                game.observe(anyone)
        _require(game.observe(agent) == other.observe(agent), f"looking changed what {agent} sees")
        _require(game.observe(agent) == game.last()[0], "last() shows something else than observe()")
        other.step(agent)
    for anyone in env.possible_agents:
        _require(env.observe(anyone) == other.observe(anyone), f"looking changed what {anyone} sees at the end")


def _copies(make: Make, cycles: int) -> None:
    env = make()
    env.reset(seed=1)
    env.step("first")
    clones = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    ends = []
    for game in (env, *clones):
        shown = [str(game.observe(agent)) for _, agent in _play(game, lambda agent: agent)]
        ends.append((shown, dict(game.rewards), dict(game.infos)))
    _require(ends[1] == ends[0], "a deep copy goes on differently")
    _require(ends[2] == ends[0], "a pickled copy goes on differently")


def _generators(make: Make, cycles: int) -> None:
    before = (random.getstate(), str(np.random.get_state()))
    env = make()
    env.reset(seed=1)
    for _ in _play(env, lambda agent: agent):
        pass
    env.reset()
    _require((random.getstate(), str(np.random.get_state())) == before, "a global generator was used")


def _any_text(make: Make, cycles: int) -> None:
    for text in ("", "\x00", "\ud800", "²≤中🙂\\frac{}{}\n", "x" * 100_000, "{" * 5_000):
        env = make()
        env.reset(seed=1)
        for game, agent in _play(env, lambda agent, text=text: text):  # type: ignore[misc]
            seen = game.observe(agent)
            _require(game.observation_space(agent).contains(seen), f"after {text[:9]!r} an observation is no text")
        for agent in env.possible_agents:
            _require(env.observation_space(agent).contains(env.observe(agent)), f"{agent} sees no text at the end")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise _BrokenError(message)


# ------------------------------------------------------------------ of Flex-MG


def _visibility(make: Make, cycles: int) -> None:
    """Plant a marker in each action, and look for all of them in all observations after each turn."""
    env = make()
    env.reset(seed=1)
    game = _game(env)
    planted: list[tuple[int, str]] = []

    def say(agent: str) -> str:
        planted.append((len(game.plans) - 1, agent))
        return _marker(*planted[-1])

    whole = game.communication.is_full and game.max_action_chars > 100
    for _ in _play(env, say):
        _check_markers(game, planted, whole)
    _check_markers(game, planted, whole)


def _check_markers(game: FlexMG, planted: Sequence[tuple[int, str]], whole: bool) -> None:
    now = len(game.plans) - 1
    for viewer in game.possible_agents:
        text = str(game.observe(viewer))
        for number, author in planted:
            plan = game.plans[number]
            allowed = author in plan.sees[viewer] or (number < now and author in plan.later[viewer])
            found = _marker(number, author) in text
            _require(
                found <= (allowed or author == viewer),
                f"{viewer} sees what {author} said in round {number}, which D does not allow",
            )
            if whole or author == viewer:
                _require(
                    found or not (allowed or author == viewer),
                    f"{viewer} does not see what {author} said in round {number}, which D allows",
                )


def _game(env: AnyAEC) -> FlexMG:
    game = env.unwrapped
    if not isinstance(game, FlexMG):
        raise TypeError(f"{game} is no FlexMG")
    return game


def _marker(number: int, agent: str) -> str:
    return f"marker<{number}.{agent}>"


def _replays(make: Make, cycles: int) -> None:
    env = make()
    env.reset(seed=3)
    for _ in _play(env, lambda agent: f"{agent} says \\boxed{{1}}"):
        pass
    record = Episode.from_json(_game(env).episode().to_json())
    differences = replay(make(), record)
    _require(not differences, "; ".join(differences))


_GENERAL: dict[str, Callable[[Make, int], None]] = {
    "pettingzoo api_test": _api,
    "pettingzoo seed_test": _seed,
    "pettingzoo parallel_api_test": _parallel_api,
    "pettingzoo parallel_seed_test": _parallel_seed,
    "pettingzoo render_test": _render,
    "gymnasium check_env": _gymnasium,
    "all agents end together": _ends_together,
    "infos are numbers with fixed keys": _infos,
    "observe is pure": _pure,
    "copies go on alike": _copies,
    "global generators untouched": _generators,
    "any text is an action": _any_text,
}
_OF_THE_GAME: dict[str, Callable[[Make, int], None]] = {
    "exactly what D allows is seen": _visibility,
    "records replay byte for byte": _replays,
}
