"""Views of a game for algorithms that expect another interface."""

from marft_envs.wrappers.shared_policy import SharedPolicyEnv
from marft_envs.wrappers.turn_parallel import TurnParallel

__all__ = ["SharedPolicyEnv", "TurnParallel"]
