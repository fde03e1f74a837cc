from .dependency import Dependency, DependencyError
from .game import FlexMG
from .game.episode import Episode
from .game.rewards import TeamReward
from .game.task import (
    JudgedTasks,
    JudgeFailure,
    Outcome,
    Session,
    Task,
    TaskList,
    Tasks,
    TaskSet,
    UnknownTaskError,
    WorldSet,
    last_outcome,
)
from .game.turn import Turn
from .records.replay import replay
from .registration.builtin import register_builtin
from .registration.factory import make, make_parallel, make_shared, make_vec
from .registration.registry import EnvSpec, UnknownEnvironmentError, envs, register, spec
from .registration.task_environment import register_task
from .rollout.game_status import Ended, Waiting
from .rollout.vector_games import VectorGames
from .spaces import TextObservation, UnicodeText, clean
from .teams.profile import Profile, TeamError
from .teams.team import Team
from .wrappers import SharedPolicyEnv, TurnParallel

__version__: str

__all__ = [
    "Dependency",
    "DependencyError",
    "Ended",
    "EnvSpec",
    "Episode",
    "FlexMG",
    "JudgeFailure",
    "JudgedTasks",
    "Outcome",
    "Profile",
    "Session",
    "SharedPolicyEnv",
    "Task",
    "TaskList",
    "TaskSet",
    "Tasks",
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
    "clean",
    "envs",
    "last_outcome",
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
