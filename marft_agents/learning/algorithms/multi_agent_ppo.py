"""Multi-agent PPO family: values per round or per agent, and sequential updates of the agents."""

from marft_agents.learning.algorithms.definition import Algorithm

MAPPO = Algorithm(
    "one joint advantage for all who act in a round, from values of normalised returns",
    "arXiv 2103.01955",
    {"baseline": "critic", "credit": "round"},
    defaults={"value_norm": True},
)
IPPO = Algorithm(
    "each agent by itself, with a value head of its own", "arXiv 2011.09533", {"baseline": "critic", "credit": "own"}
)
HAPPO = Algorithm(
    "agents one by one in random order, each weighted by the ratios of those before it",
    "arXiv 2109.11251",
    {"baseline": "critic", "credit": "round", "compounding": "happo", "agent_interval": 0},
    defaults={"agent_order": "random"},
)
A2PO = Algorithm(
    "agents one by one, the advantage corrected for those before; their ratio gets half of a clip that widens",
    "arXiv 2302.06205",
    {"baseline": "critic", "credit": "round", "compounding": "a2po", "agent_interval": 0},
    defaults={"agent_order": "semi-greedy", "clip_start": 0.5},
)
