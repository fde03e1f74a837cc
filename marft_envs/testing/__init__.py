"""Conformance kit: the rules that an environment must pass to be used by learners, ours or not.

It runs PettingZoo's and Gymnasium's own tests unmodified, then checks further rules. All agents end
together, infos are numbers with fixed keys, and `observe` is pure. A copy in mid-game continues alike, global
generators stay untouched, and any text is an action. For a Flex-MG it also checks that agents see exactly what D allows
and that records replay.

    report = check_environment(lambda **kwargs: marft_envs.make("marft/math_duo-v0", **kwargs))
    print(report)

`RULES` lists them all; each can be run alone: `run_rule(rule, make)`.
"""

from marft_envs.testing.kit import RULES, check_environment, run_rule
from marft_envs.testing.report import Check, NotApplicable, Report, Rule, RuleBrokenError

__all__ = ["RULES", "Check", "NotApplicable", "Report", "Rule", "RuleBrokenError", "check_environment", "run_rule"]
