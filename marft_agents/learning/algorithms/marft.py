"""MARFT: PPO along the chain of the team's turns, at action and at token level; arXiv 2504.16129."""

from marft_agents.learning.algorithms.definition import WHOLE_ACTIONS, Algorithm

MARFT_A = Algorithm(
    "MARFT at action level: PPO over whole actions along the agent chain",
    "arXiv 2504.16129",
    WHOLE_ACTIONS | {"baseline": "critic", "credit": "chain"},
)
MARFT_T = Algorithm(
    "MARFT at token level: every token is a decision",
    "arXiv 2504.16129",
    {"level": "token", "baseline": "critic", "credit": "chain"},
)
