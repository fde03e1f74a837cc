"""Rules that PettingZoo's interface leaves open: spaces, ends, rewards, infos, observing, any action."""

from __future__ import annotations

import pickle
import re
from numbers import Number
from typing import Any

import numpy as np
from gymnasium import spaces

from marft_envs.environment_capabilities import pays_individually
from marft_envs.testing.playing import begun, equal, play, play_out, require_text_actions, transcript
from marft_envs.testing.report import AnyAEC, Make, NotApplicable, require
from marft_envs.wrappers.episode_end import drain

_UNICODE = "²≤中🙂\\frac{}{}\n\x00"
_HUGE_CHARS = 60_000
_RANDOM_GAMES = 10


def spaces_kept(make: Make, cycles: int) -> str:
    """Check agent names like `solver_0`, and spaces: the same object at each call, cheap to hash, print and send."""
    env = make()
    for agent in env.possible_agents:
        require(bool(re.fullmatch(r"[a-z_]+_[0-9]+", agent)), f"an agent is called {agent!r}, wanted like 'solver_0'")
        for kind in ("observation", "action"):
            _keeps(env, agent, kind)
    return ""


def _keeps(env: AnyAEC, agent: str, kind: str) -> None:
    space = getattr(env, f"{kind}_space")(agent)
    where = f"{kind}_space({agent!r})"
    require(space is getattr(env, f"{kind}_space")(agent), f"{where} is another object at each call")
    held = getattr(env, f"{kind}_spaces", {})
    require(held.get(agent) is space, f"{kind}_spaces[{agent!r}], which skrl and others read, is not {where}")
    require(len(repr(space)) < 400, f"{where} prints {len(repr(space))} characters, in every error")
    require(len(pickle.dumps(space)) < 100_000, f"{where} takes {len(pickle.dumps(space))} bytes to send")
    require(bool(space.contains(space.sample())), f"{where} does not contain its own sample")


def texts_fit(make: Make, cycles: int) -> str:
    """Check that text spaces hold the output of language models, and nothing else."""
    env = make()
    found = {
        f"{kind}_space({agent!r})": space
        for agent in env.possible_agents
        for kind in ("observation", "action")
        if isinstance(space := getattr(env, f"{kind}_space")(agent), spaces.Text)
    }
    if not found:
        raise NotApplicable("it has no text spaces")
    for where, space in found.items():
        huge = "x" * min(_HUGE_CHARS, space.max_length)
        for text in ("", _UNICODE[: space.max_length], huge):
            require(space.contains(text), f"{where} does not contain {text[:12]!r} ({len(text)} characters)")
        for strange in ("\ud800", b"bytes", None):
            require(not space.contains(strange), f"{where} contains {strange!r}, which cannot be sent as UTF-8 text")
        hash(space)
    return ""


# ----------------------------------------------------------- ends and rewards


def ends_together(make: Make, cycles: int) -> str:
    """Check that all agents end in the same step, with the same flags."""
    env = begun(make)
    for _ in play(env):
        ended = {agent for agent in env.possible_agents if env.terminations[agent] or env.truncations[agent]}
        require(not ended, f"{sorted(ended)} ended before the others")
    flags = {(bool(env.terminations[agent]), bool(env.truncations[agent])) for agent in env.possible_agents}
    require(len(flags) == 1, f"the flags differ: terminations {env.terminations}, truncations {env.truncations}")
    require(flags != {(True, True)}, "all agents are both terminated and truncated")
    return ""


OWN_REWARDS = "ippo, or an algorithm without a critic"  # algorithms that take them


def team_reward(make: Make, cycles: int) -> str:
    """Check that all agents get one finite reward in the same step, unless the game promises individual rewards."""
    env = begun(make)
    totals = dict.fromkeys(env.possible_agents, 0.0)
    for _ in play(env):
        _add_paid(env, totals)
    _add_paid(env, totals)
    if not pays_individually(env):
        return f"{next(iter(totals.values())):g} in a game of plain actions"
    paid = ", ".join(f"{agent} {total:g}" for agent, total in totals.items())
    return (
        f"individual rewards ({paid}): train on them with --rewards own ({OWN_REWARDS}); --rewards team takes their "
        "mean"
    )


def _add_paid(env: AnyAEC, totals: dict[str, float]) -> None:
    rewards = {agent: float(reward) for agent, reward in env.rewards.items()}
    require(all(np.isfinite(list(rewards.values()))), f"a reward is not finite: {rewards}")
    same = len(set(rewards.values())) == 1
    require(same or pays_individually(env), f"the rewards of one step differ: {rewards}")
    for agent, reward in rewards.items():
        totals[agent] += reward


def random_wins_nothing(make: Make, cycles: int) -> str:
    """Check that text without meaning is never a success."""
    env = make()
    require_text_actions(env)
    for game in range(_RANDOM_GAMES):
        env.reset(seed=game)
        for agent in env.possible_agents:
            env.action_space(agent).seed(game)
        play_out(env, lambda agent: env.action_space(agent).sample())
        info = env.infos[env.possible_agents[0]]
        if "success" not in info:
            raise NotApplicable("its infos have no 'success'")
        require(not info["success"], f"random text solved the game of seed {game}")
    return f"{_RANDOM_GAMES} games"


# ---------------------------------------------------------- infos and looking


def numeric_infos(make: Make, cycles: int) -> str:
    """Check that infos hold numbers of fixed shape under fixed keys, for all agents from reset to end."""
    env = begun(make)
    shapes: dict[str, Any] = {}
    for _ in play(env):
        _check_infos(env, shapes)
    _check_infos(env, shapes)
    return ", ".join(shapes)


def _check_infos(env: AnyAEC, shapes: dict[str, Any]) -> None:
    require(set(env.infos) == set(env.possible_agents), f"infos of {sorted(env.infos)} only")
    for agent, info in env.infos.items():
        strange = [key for key, value in info.items() if not isinstance(value, Number | np.bool_ | np.ndarray)]
        require(not strange, f"{agent}: {strange} hold no numbers")
        found = {key: np.shape(value) for key, value in info.items()}
        if not shapes:
            shapes.update(found)
        require(found.keys() == shapes.keys(), f"the keys of {agent} changed: {sorted(found.keys() ^ shapes.keys())}")
        changed = [key for key in found if found[key] != shapes[key]]
        require(not changed, f"{agent}: the shapes of {changed} changed")


def looking_is_free(make: Make, cycles: int) -> str:
    """Check that `observe` changes nothing, agrees with `last`, and works for all agents before, during and after."""
    env, other = begun(make), begun(make)
    for agent, same in zip(play(env), play(other), strict=True):
        for _ in range(2):
            for anyone in env.possible_agents:
                env.observe(anyone)
        require(agent == same, "looking changed the order of the turns")
        require(equal(env.observe(agent), other.observe(agent)), f"looking changed what {agent} sees")
        require(equal(env.observe(agent), env.last()[0]), "last() shows something else than observe()")
    drain(env)
    for anyone in env.possible_agents:
        seen = env.observe(anyone)
        require(equal(seen, other.observe(anyone)), f"looking, or leaving, changed what {anyone} sees at the end")
        require(env.observation_space(anyone).contains(seen), f"{anyone} sees nothing of its space after the end")
    return ""


# ------------------------------------------------------------- any input works


def any_text(make: Make, cycles: int) -> str:
    """Check that any text is a valid action, and that the next observation is still a text."""
    require_text_actions(make())
    for text in ("", "\x00", "\ud800", _UNICODE, "x" * 100_000, "{" * 5_000):
        env = begun(make)
        for agent in play(env, lambda agent, text=text: text):  # type: ignore[misc]
            _check_seen(env, agent, text)
        for agent in env.possible_agents:
            _check_seen(env, agent, text)
    return ""


def _check_seen(env: AnyAEC, agent: str, text: str) -> None:
    seen = env.observe(agent)
    require(env.observation_space(agent).contains(seen), f"after {text[:9]!r} the space of {agent} lacks what it sees")


def unknown_options(make: Make, cycles: int) -> str:
    """Check that an unknown option changes nothing."""
    plain, asked = begun(make), make()
    asked.reset(seed=1, options={"an option that nobody has": object()})
    require(transcript(plain) == transcript(asked), "an unknown option changed the game")
    return ""


def reset_midway(make: Make, cycles: int) -> str:
    """Check that a reset in mid-game starts anew, as in a new environment."""
    env = begun(make, seed=2)
    next(turns := play(env))
    next(turns, None)
    env.reset(seed=1)
    require(transcript(env) == transcript(begun(make)), "after a reset in mid-game it plays differently than when new")
    return ""


def closes_twice(make: Make, cycles: int) -> str:
    """Check that `close` may be called at any time, and again."""
    make().close()
    env = begun(make)
    env.close()
    env.close()
    return ""
