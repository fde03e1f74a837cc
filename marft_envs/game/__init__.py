"""The game Flex-MG of an LLM team, written once for all tasks.

| module | holds |
|---|---|
| `flex_mg` | definition and rules of the game, as a PettingZoo AEC environment |
| `readable_game` | its other half, which changes nothing: observations, infos, pictures, copies |
| `arguments` | checks of its arguments |
| `state` | the state of one game |
| `observation`, `infos`, `render` | what agents, learners and people see of it |
| `task` | protocol of tasks: task sets (data), sessions and outcomes |
| `turn`, `episode` | the record of a game |
| `rewards` | the team reward: a weighted sum of terms over the episode |
"""

from marft_envs.game.flex_mg import FlexMG, Reward
from marft_envs.game.infos import INFO_KEYS

__all__ = ["INFO_KEYS", "FlexMG", "Reward"]
