"""Algorithms without a critic: returns against those of a group, or of the whole batch."""

from marft_agents.learning.algorithms.definition import Algorithm
from marft_agents.learning.parts import (
    KlInLoss,
    KlInReward,
    PlainReturns,
    PromptGroups,
    Tokens,
    TurnGroups,
    WholeActions,
)

GRPO = Algorithm(
    "returns against the mean of their group, over its spread; KL to the base in the loss",
    "arXiv 2402.03300",
    PromptGroups("group", scaling="group"),
    Tokens("sequence"),
    kl=KlInLoss(0.04),
)
DR_GRPO = Algorithm(
    "GRPO without the two divisions that bias it: by the spread and by each action's length",
    "arXiv 2503.20783",
    PromptGroups("group", scaling="none"),
    Tokens("constant"),
)
DAPO = Algorithm(
    "GRPO with a higher upper clip, a mean over tokens, dynamic sampling and soft punishment of long actions",
    "arXiv 2503.14476",
    PromptGroups("group", scaling="group"),
    Tokens("decision"),
    defaults={"clip_high": 0.28, "dynamic_sampling": 4, "overlong_share": 0.2},
)
GSPO = Algorithm(
    "GRPO with one ratio per action, of its tokens' geometric mean",
    "arXiv 2507.18071",
    PromptGroups("group", scaling="group"),
    WholeActions("token"),
    defaults={"clip_low": 3e-4, "clip_high": 4e-4},
)
RLOO = Algorithm(
    "REINFORCE of whole actions against the mean return of the others; any KL is in the reward",
    "arXiv 2402.14740",
    PromptGroups("leave_one_out", scaling="none"),
    WholeActions("sum"),
    kl=KlInReward(kl_estimator="k1"),
)
REINFORCE_PLUS_PLUS = Algorithm(
    "returns and the KL still to come, normalised per agent over the batch; no group needed",
    "arXiv 2501.03262",
    PlainReturns(scaling="agent", centring="batch"),
    Tokens("decision"),
    kl=KlInReward(0.01, "k1"),
)
AT_GRPO = Algorithm(
    "GRPO whose groups are an agent's turns in the same round, or (--branches) alternatives of the same turn",
    "arXiv 2510.11062",
    TurnGroups("group", scaling="group"),
    Tokens("sequence"),
    defaults={"discount": 1.0},
)
C3 = Algorithm(
    "alternatives of one turn, the rest replayed, each against the mean of the others",
    "arXiv 2603.06859",
    TurnGroups("leave_one_out", scaling="none"),
    Tokens("decision"),
    defaults={"branches": 4, "discount": 1.0},
    min_branches=2,
)
