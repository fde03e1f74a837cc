"""Environments of MARFT: text games of LLM teams (Flex-MG), for PettingZoo and Gymnasium.

Importing this package registers `marft/{math,gsm8k,aime,cmath,codeforces,tools}_{solo,duo,trio,quartet,octet}-v0`
with both libraries. Codeforces also has `-v1`, its newest. The environments of installed plugins are registered, too.
The import loads neither torch nor a grader nor data.

    import marft_envs

    env = marft_envs.make("marft/math_duo-v0")
    env.reset(seed=0)
    for agent in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()
        env.step(None if termination or truncation else my_policy(observation.messages))
"""

from importlib import metadata

from marft_envs.dependency import Dependency, DependencyError
from marft_envs.factory import make, make_parallel, make_shared, register_builtin, register_task
from marft_envs.game import FlexMG
from marft_envs.live_game import Ended, Waiting
from marft_envs.registry import EnvSpec, UnknownEnvironmentError, envs, load_plugins, register, spec
from marft_envs.rewards import TeamReward
from marft_envs.session import Session, WorldSet
from marft_envs.spaces import TextObservation, UnicodeText
from marft_envs.task import JudgeFailure, Outcome, Task, TaskList, TaskSet, UnknownTaskError
from marft_envs.team import Profile, Team, TeamError
from marft_envs.trace import Episode, Turn, replay
from marft_envs.vector import VectorGames, make_vec
from marft_envs.wrappers import SharedPolicyEnv, TurnParallel

__all__ = [
    "Dependency",
    "DependencyError",
    "Ended",
    "EnvSpec",
    "Episode",
    "FlexMG",
    "JudgeFailure",
    "Outcome",
    "Profile",
    "Session",
    "SharedPolicyEnv",
    "Task",
    "TaskList",
    "TaskSet",
    "Team",
    "TeamError",
    "TeamReward",
    "TextObservation",
    "Turn",
    "TurnParallel",
    "UnicodeText",
    "UnknownEnvironmentError",
    "UnknownTaskError",
    "VectorGames",
    "Waiting",
    "WorldSet",
    "envs",
    "make",
    "make_parallel",
    "make_shared",
    "make_vec",
    "register",
    "register_builtin",
    "register_task",
    "replay",
    "spec",
]

__version__ = metadata.version("marft")

register_builtin()
load_plugins(importing=True)
