"""Reproducibility rules: one seed gives one game in copies, in parallel and in other processes; no side effects."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from gymnasium.vector.utils import CloudpickleWrapper

from marft_envs.testing.playing import begun, plain_action, play, play_out, shown, transcript
from marft_envs.testing.report import Make, NotApplicable, RuleBrokenError, require

_SIDE_BY_SIDE = 8
_HASH_SEEDS = ("1", "2")
_ELSEWHERE = """
import json, pickle, sys
path, makes, seed = pickle.load(sys.stdin.buffer)
sys.path[:] = path
from marft_envs.testing.repeatable import play_here
json.dump(play_here(makes, seed), sys.stdout)
"""


def generators_untouched(make: Make, cycles: int) -> str:
    """Check that the global generators of `random` and `numpy.random` are neither used nor seeded."""
    before = _global_states()
    play_out(begun(make)).reset()
    require(_global_states() == before, "a global generator was used or seeded")
    return ""


def _global_states() -> tuple[Any, str]:
    return random.getstate(), str(np.random.get_state())


def copies_go_on(make: Make, cycles: int) -> str:
    """Check that a deep copy and a pickled copy in mid-game continue like the game itself."""
    env = begun(make)
    env.step(plain_action(env, env.agent_selection))
    clones = {
        "deep": copy.deepcopy(env),
        "pickled": pickle.loads(pickle.dumps(env)),
        "cloudpickled": pickle.loads(pickle.dumps(CloudpickleWrapper(lambda: env)))(),
    }
    alone = transcript(env)
    for kind, clone in clones.items():
        require(transcript(clone) == alone, f"a {kind} copy goes on differently")
    return ""


def side_by_side(make: Make, cycles: int) -> str:
    """Check that eight interleaved games of one seed are the same game."""
    alone = transcript(begun(make))
    games = [begun(make) for _ in range(_SIDE_BY_SIDE)]
    running = [play(env) for env in games]
    for turn in range(len(alone)):
        agents = {next(one, "the end") for one in running}
        require(len(agents) == 1, f"at turn {turn} it is the turn of {' and '.join(sorted(agents))}")
        seen = {shown(env) for env in games}
        require(len(seen) == 1, f"at turn {turn} games of one seed, played side by side, differ")
    require(transcript(begun(make)) == alone, "a game plays differently after others were played")
    return f"{_SIDE_BY_SIDE} games of {len(alone) - 1} turns"


# ----------------------------------------------------------- other processes


def other_processes(make: Make, cycles: int) -> str:
    """Check that a seed gives the same game in processes with different hash seeds."""
    compare_elsewhere([make])
    return f"PYTHONHASHSEED {', '.join(_HASH_SEEDS)}"


def compare_elsewhere(makes: Sequence[Make], seed: int = 1) -> None:
    """Play each environment here and in two other processes, and compare.

    Args:
        makes: Factories of the environments, in any form that `cloudpickle` can carry.
        seed: Seed of all games.

    Raises:
        RuleBrokenError: They differ; says at which turn.
        NotApplicable: It cannot be made elsewhere.
    """
    carried = [pickle.dumps(CloudpickleWrapper(make)) for make in makes]
    with ThreadPoolExecutor(len(_HASH_SEEDS)) as pool:
        there = pool.map(lambda hash_seed: _play_there(carried, seed, hash_seed), _HASH_SEEDS)
        here = play_here(carried, seed)
        for hash_seed, transcripts in zip(_HASH_SEEDS, there, strict=True):
            for place, (one, other) in enumerate(zip(here, transcripts, strict=True)):
                _compare(one, other, f"environment {place}, PYTHONHASHSEED={hash_seed}")


def _play_there(makes: Sequence[bytes], seed: int, hash_seed: str) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _ELSEWHERE],
        input=pickle.dumps((sys.path, makes, seed)),
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        complaint = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise NotApplicable(f"it cannot be made in another process: {complaint[-1][:300]}")
    transcripts: list[list[str]] = json.loads(done.stdout)
    return transcripts


def play_here(makes: Sequence[bytes], seed: int) -> list[list[str]]:
    """Return the transcripts of environments in this process."""
    return [transcript(begun(pickle.loads(make), seed)) for make in makes]


def _compare(here: Sequence[str], there: Sequence[str], where: str) -> None:
    differing = [turn for turn, (one, other) in enumerate(zip(here, there, strict=False)) if one != other]
    if differing or len(here) != len(there):
        turn = differing[0] if differing else min(len(here), len(there))
        raise RuleBrokenError(f"another process shows something else at turn {turn} ({where})")
