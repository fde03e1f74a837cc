"""Bridges to other ecosystems: our games in their trainers and servers, their games in our learner.

None of their packages is a dependency of this one; each is imported when its bridge is called.

| function | needs | returns |
|---|---|---|
| `to_trl_environment` | `trl`, to train with it | an `environment_factory` for `GRPOTrainer` that trains one agent |
| `to_verifiers` | `verifiers` | a taskset, an environment with the agents as roles, and a harness |
| `to_openenv` | `openenv-core` | an application that serves one agent |
| `from_textarena` | `textarena` | a TextArena game as a PettingZoo AEC environment |

Any PettingZoo AEC environment with `gymnasium.spaces.Text` spaces needs no bridge: our learner takes it unchanged.
"""

from marft_envs.bridges.openenv import to_openenv
from marft_envs.bridges.single_agent import AgentAssignmentError, GameFailedError, SingleAgentGame
from marft_envs.bridges.textarena import from_textarena
from marft_envs.bridges.trl import to_trl_environment
from marft_envs.bridges.verifiers import to_verifiers

SeatError, SeatGame = AgentAssignmentError, SingleAgentGame  # earlier names

__all__ = [
    "AgentAssignmentError",
    "GameFailedError",
    "SingleAgentGame",
    "from_textarena",
    "to_openenv",
    "to_trl_environment",
    "to_verifiers",
]
