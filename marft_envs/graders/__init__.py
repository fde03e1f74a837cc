"""Graders of answers: text, number, function, endpoint, model, and combinations of them.

>>> from marft_envs.tasks.base import Task
>>> combine("mean", StringGrader(), NumericGrader())(" 42 ", Task("t", "?", "42.0", "test")).value
0.5
"""

from marft_envs.graders.base import FunctionGrader, Grader, NumericGrader, Score, StringGrader
from marft_envs.graders.cohen_kappa import Agreement, cohen_kappa
from marft_envs.graders.combination import Combination, combine
from marft_envs.graders.endpoint import EndpointGrader
from marft_envs.graders.graded_tasks import AnswerTasks
from marft_envs.graders.model import ModelGrader

__all__ = [
    "Agreement",
    "AnswerTasks",
    "Combination",
    "EndpointGrader",
    "FunctionGrader",
    "Grader",
    "ModelGrader",
    "NumericGrader",
    "Score",
    "StringGrader",
    "cohen_kappa",
    "combine",
]
