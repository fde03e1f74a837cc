"""Graders of answers and trajectories: text, number, function, endpoint, model, and combinations of them.

>>> from marft_envs.game.task import Task
>>> combine("mean", StringGrader(), NumericGrader())(" 42 ", Task("t", "?", "42.0", "test")).value
0.5
"""

from marft_envs.graders.base import FunctionGrader, Grader, NumericGrader, Score, StringGrader, Trajectory
from marft_envs.graders.cohen_kappa import Agreement, cohen_kappa
from marft_envs.graders.combination import Combination, combine
from marft_envs.graders.endpoint import EndpointGrader
from marft_envs.graders.graded_tasks import AnswerTasks, GradedTasks, bare_tasks
from marft_envs.graders.metered import BudgetSpentError, MeteredGrader
from marft_envs.graders.model import ModelGrader
from marft_envs.graders.settings import GraderError, GraderSettings

__all__ = [
    "Agreement",
    "AnswerTasks",
    "BudgetSpentError",
    "Combination",
    "EndpointGrader",
    "FunctionGrader",
    "GradedTasks",
    "Grader",
    "GraderError",
    "GraderSettings",
    "MeteredGrader",
    "ModelGrader",
    "NumericGrader",
    "Score",
    "StringGrader",
    "Trajectory",
    "bare_tasks",
    "cohen_kappa",
    "combine",
]
