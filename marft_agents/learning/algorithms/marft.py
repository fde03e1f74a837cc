"""MARFT: PPO along the chain of the team's turns, at action and at token level; arXiv 2504.16129."""

from marft_agents.learning.algorithms.definition import Algorithm
from marft_agents.learning.parts import Critic, Tokens, WholeActions

MARFT_A = Algorithm(
    "MARFT at action level: PPO over whole actions along the agent chain",
    "arXiv 2504.16129",
    Critic("chain"),
    WholeActions(),
)
MARFT_T = Algorithm("MARFT at token level: every token is a decision", "arXiv 2504.16129", Critic("chain"), Tokens())
