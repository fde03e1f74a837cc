"""The conformance kit: what an environment must pass to be used by others, ours or not.

It runs PettingZoo's and Gymnasium's own tests unmodified, then checks what they leave open: all agents end
together, infos are numbers with fixed keys, `observe` is pure, a copy in mid-game goes on alike, global
generators stay untouched, any text is an action; and, of a Flex-MG, that exactly what D allows is seen and
that records replay.

    report = check_environment(lambda **kwargs: marft_envs.make("marft/math_duo-v0", **kwargs))
    print(report)

`RULES` lists them all; each can be run alone: `run_rule(rule, make)`.
"""

from marft_envs.testing.kit import RULES, check_environment, run_rule
from marft_envs.testing.report import Check, NotApplicable, Report, Rule, RuleBrokenError

__all__ = ["RULES", "Check", "NotApplicable", "Report", "Rule", "RuleBrokenError", "check_environment", "run_rule"]
