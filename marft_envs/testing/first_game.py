"""The first game of a check, played before all other rules, and the line of the user's file behind an error.

An environment that cannot be played breaks nearly every rule, with advice that leads away from the cause.
"""

from __future__ import annotations

import inspect
from typing import Any

from marft_common.user_code import is_own, shown, user_line
from marft_envs.environment_capabilities import listing_game
from marft_envs.game.task import JudgedSession, JudgeFailure, Outcome
from marft_envs.testing.playing import begun, play
from marft_envs.testing.report import Make, NotApplicable, require


def a_game_is_played(make: Make, cycles: int) -> str:
    """Make an environment and play one game to its end."""
    env = begun(make)
    try:
        turns = sum(1 for _ in play(env))
    except TypeError as error:
        # A wrong signature is found at the call, which is ours: name the definition instead.
        if not user_line(error) and (defined := _definition(getattr(env.unwrapped, "session", None))):
            error.add_note(defined)
        raise
    return f"{turns} turns"


def no_answer_is_judged(make: Make, cycles: int) -> str:
    """Check that `judge` takes None, which it gets where no answering agent acted, and that it is no success."""
    session = getattr(listing_game(begun(make)), "session", None)
    if not isinstance(session, JudgedSession):
        raise NotApplicable("its tasks have no judge")
    try:
        outcome = session.tasks.judge(session.task, None, round=0, last_round=True)
    except JudgeFailure as failure:
        raise NotApplicable(f"the judge does not work here: {failure}") from failure
    require(isinstance(outcome, Outcome), f"judge(task, None, ...) returned {outcome!r}, wanted an Outcome")
    require(not outcome.success, "judge(task, None, ...) is a success: no answer solved the task")
    return ""


def _definition(session: Any) -> str:
    """Return "file:line" of the user's function that a session calls in each round; empty if it is a library's."""
    called = type(session.tasks).judge if isinstance(session, JudgedSession) else getattr(session, "advance", None)
    if not inspect.isroutine(called) or not is_own(called.__module__):
        return ""
    code = inspect.unwrap(called).__code__
    return f"{shown(code.co_filename)}:{code.co_firstlineno}, in {code.co_name}"
