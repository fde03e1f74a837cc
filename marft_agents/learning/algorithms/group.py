"""Algorithms without a critic: returns against those of a group, or of the whole batch."""

from marft_agents.learning.algorithms.definition import PROMPT_GROUPS, TURN_GROUPS, WHOLE_ACTIONS, Algorithm

GRPO = Algorithm(
    "returns against the mean of their group, over its spread; KL to the base in the loss",
    "arXiv 2402.03300",
    PROMPT_GROUPS | {"baseline": "group", "scaling": "group", "level": "token", "averaging": "sequence"},
    defaults={"kl_weight": 0.04},
)
DR_GRPO = Algorithm(
    "GRPO without the two divisions that bias it: by the spread and by each action's length",
    "arXiv 2503.20783",
    PROMPT_GROUPS | {"baseline": "group", "scaling": "none", "level": "token", "averaging": "constant"},
)
DAPO = Algorithm(
    "GRPO with a higher upper clip, a mean over tokens, dynamic sampling and soft punishment of long actions",
    "arXiv 2503.14476",
    PROMPT_GROUPS | {"baseline": "group", "scaling": "group", "level": "token", "averaging": "decision"},
    defaults={"clip_high": 0.28, "dynamic_sampling": 4, "overlong_share": 0.2},
)
GSPO = Algorithm(
    "GRPO with one ratio per action, of its tokens' geometric mean",
    "arXiv 2507.18071",
    PROMPT_GROUPS | WHOLE_ACTIONS | {"baseline": "group", "scaling": "group", "normalisation": "token"},
    defaults={"clip_low": 3e-4, "clip_high": 4e-4},
)
RLOO = Algorithm(
    "REINFORCE of whole actions against the mean return of the others; any KL is in the reward",
    "arXiv 2402.14740",
    PROMPT_GROUPS | WHOLE_ACTIONS | {"baseline": "leave_one_out", "scaling": "none", "normalisation": "sum"},
    defaults={"kl_place": "reward", "kl_estimator": "k1"},
)
REINFORCE_PLUS_PLUS = Algorithm(
    "returns and the KL still to come, normalised per agent over the batch; no group needed",
    "arXiv 2501.03262",
    PROMPT_GROUPS
    | {"baseline": "none", "scaling": "agent", "centring": "batch", "level": "token", "averaging": "decision"},
    defaults={"kl_place": "reward", "kl_weight": 0.01, "kl_estimator": "k1"},
)
AT_GRPO = Algorithm(
    "GRPO whose groups are an agent's turns in the same round, or (--branches) alternatives of the same turn",
    "arXiv 2510.11062",
    TURN_GROUPS | {"baseline": "group", "scaling": "group", "level": "token", "averaging": "sequence"},
    defaults={"discount": 1.0},
)
C3 = Algorithm(
    "alternatives of one turn, the rest replayed, each against the mean of the others",
    "arXiv 2603.06859",
    TURN_GROUPS | {"baseline": "leave_one_out", "scaling": "none", "level": "token", "averaging": "decision"},
    defaults={"branches": 4, "discount": 1.0},
    min_branches=2,
)
