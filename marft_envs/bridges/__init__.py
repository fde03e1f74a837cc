"""Bridges to other ecosystems: our games in their trainers and servers, their games in our learner.

None of their packages is a dependency of this one; each is imported when its bridge is called.

| function | needs | gives |
|---|---|---|
| `to_trl_environment` | `trl`, to train with it | what `GRPOTrainer(environment_factory=...)` takes: one trained seat |
| `to_verifiers` | `verifiers` | a taskset, an environment whose roles are the seats, and a harness |
| `to_openenv` | `openenv-core` | an application that serves one seat |
| `from_textarena` | `textarena` | a TextArena game as a PettingZoo AEC environment |

Any PettingZoo AEC environment whose spaces are `gymnasium.spaces.Text` needs no bridge: our learner takes it as it is.
"""

from marft_envs.bridges.openenv import to_openenv
from marft_envs.bridges.seat import GameFailedError, SeatError, SeatGame
from marft_envs.bridges.textarena import from_textarena
from marft_envs.bridges.trl import to_trl_environment
from marft_envs.bridges.verifiers import to_verifiers

__all__ = [
    "GameFailedError",
    "SeatError",
    "SeatGame",
    "from_textarena",
    "to_openenv",
    "to_trl_environment",
    "to_verifiers",
]
