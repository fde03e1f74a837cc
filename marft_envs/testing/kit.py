"""Conformance check of an environment: list of all rules, and functions that run them."""

from __future__ import annotations

import contextlib
import io
import warnings

from marft_common.user_code import user_line
from marft_envs.testing import contract, others, overhead, repeatable, visibility
from marft_envs.testing.first_game import a_game_is_played, no_answer_is_judged
from marft_envs.testing.report import Check, Make, NotApplicable, Report, Rule

_SHOWN_CHARS = 500
_SEE_ABOVE = "the assertion above names the call; the environment must follow PettingZoo's AEC interface"

FIRST = Rule(
    "a game is played",
    a_game_is_played,
    "mend the line that is named; a judge is judge(self, task, answer, *, round, last_round) and returns an Outcome",
)
RULES = (
    FIRST,
    Rule("pettingzoo api_test", others.api, f"{_SEE_ABOVE}; return text as marft_envs.TextObservation"),
    Rule("pettingzoo seed_test", others.seeds, "draw from a generator made in reset(seed) alone; no times in infos"),
    Rule("pettingzoo parallel_api_test", others.parallel_api, f"{_SEE_ABOVE}; let all agents end in the same step"),
    Rule("pettingzoo parallel_seed_test", others.parallel_seeds, "as for seed_test"),
    Rule("pettingzoo render_test", others.render, "'human' prints and returns None, 'ansi' returns the text"),
    Rule("pettingzoo state_test", others.state, "let state() return a member of state_space"),
    Rule("pettingzoo performance_benchmark", others.benchmark, _SEE_ABOVE, thorough=True),
    Rule("gymnasium check_env", others.gymnasium_check, "give all agents equal spaces, and infos of numbers"),
    Rule("gymnasium vectors", others.vectors, "use marft_envs.UnicodeText for text; keep no state in the class"),
    Rule("spaces are kept", contract.spaces_kept, "make the spaces once, in __init__, as two dicts by agent"),
    Rule("text spaces hold text", contract.texts_fit, "use marft_envs.UnicodeText(max_length)"),
    Rule("all agents end together", contract.ends_together, "set the same one flag for all agents in the same step"),
    Rule(
        "one team reward",
        contract.team_reward,
        "pay all agents the same finite number in the same step, or promise `individual_rewards` in the metadata and "
        f"train with --rewards own ({contract.OWN_REWARDS})",
    ),
    Rule("infos are numbers with fixed keys", contract.numeric_infos, "leave text to the trace; 0 where it is unset"),
    Rule("observe is pure", contract.looking_is_free, "compute from the history; change nothing in observe()"),
    Rule(
        "no answer is judged", no_answer_is_judged, "let judge take None as an answer that is not there: (answer or '')"
    ),
    Rule("any text is an action", contract.any_text, "cut and repair the text (marft_envs.spaces.fit), never raise"),
    Rule("random text wins nothing", contract.random_wins_nothing, "read a marked answer, such as a box or a line"),
    Rule("unknown options are ignored", contract.unknown_options, "read the options you know with options.get"),
    Rule("a reset in mid-game starts anew", contract.reset_midway, "make everything that changes anew in reset()"),
    Rule("closes twice", contract.closes_twice, "let close() check what is still open"),
    Rule("copies go on alike", repeatable.copies_go_on, "hold no open handles, locks or lambdas; no state elsewhere"),
    Rule("games side by side agree", repeatable.side_by_side, "keep no state in the class or the module"),
    Rule("other processes agree", repeatable.other_processes, "sort sets before use; never hash()", thorough=True),
    Rule("global generators untouched", repeatable.generators_untouched, "draw from a generator made in reset(seed)"),
    Rule("exactly what D allows is seen", visibility.markers_seen, "build observations with game/observation.py"),
    Rule(
        "unseen words change nothing",
        visibility.words_that_reach_nobody,
        "build observations with game/observation.py",
    ),
    Rule("records replay byte for byte", visibility.records_replay, "let judge() be a pure function of its arguments"),
    Rule("overhead", overhead.overhead, "judge only where the answer changed; leave slow judges to the background"),
)


def check_environment(make: Make, *, cycles: int = 100, thorough: bool = False) -> Report:
    """Run every rule on an environment.

    Args:
        make: Makes a new environment; takes `render_mode`.
        cycles: Number of cycles in the tests of PettingZoo.
        thorough: Run also the slow rules (seconds): PettingZoo's performance benchmark, and other processes.

    Returns:
        The report; a rule that raises counts as failed and does not stop the others. An environment that cannot play
        its first game fails with that check alone.
    """
    first = run_rule(FIRST, make, cycles)
    if not first.passed:
        return Report((first,))
    further = (run_rule(rule, make, cycles) for rule in RULES[1:] if thorough or not rule.thorough)
    return Report((first, *further))


def run_rule(rule: Rule, make: Make, cycles: int = 100) -> Check:
    """Run one rule on an environment; arguments as of `check_environment`."""
    try:
        # third-party tests print and warn (such as "probably should be a Box")
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = rule.check(make, cycles)
    except NotApplicable as reason:
        return Check(rule.name, None, str(reason)[:_SHOWN_CHARS])
    except Exception as error:
        where = user_line(error) or "; ".join(getattr(error, "__notes__", ()))
        found = f"{type(error).__name__}: {error}"[:_SHOWN_CHARS] + (f" ({where})" if where else "")
        return Check(rule.name, False, found, rule.advice)
    return Check(rule.name, True, found)
