"""Single-agent PPO, and VAPO: PPO over tokens with a pre-trained critic."""

from marft_agents.learning.algorithms.definition import Algorithm
from marft_agents.learning.algorithms.marft import MARFT_A, MARFT_T

PPO_A = Algorithm("single-agent PPO over whole actions", "arXiv 1707.06347", MARFT_A.fixes, single_agent=True)
PPO_T = Algorithm("single-agent PPO over tokens", "arXiv 1707.06347", MARFT_T.fixes, single_agent=True)
VAPO = Algorithm(
    "token-level PPO with a pre-trained critic, its own lambda, a lambda by length, and NLL of what succeeded",
    "arXiv 2504.05118",
    {"level": "token", "averaging": "decision", "baseline": "critic", "credit": "chain"},
    defaults={
        "clip_high": 0.28,
        "discount": 1.0,
        "token_discount": 1.0,
        "value_trace_decay": 1.0,
        "length_adaptive": 0.05,
        "positive_nll": 0.1,
        "value_warmup": 50,
    },
)
