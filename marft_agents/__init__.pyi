from .generation.sampling import SamplingLaw
from .learning.algorithms import ALGORITHMS, Algorithm, learner_settings
from .learning.learner import Learner
from .learning.settings import LearnerSettings
from .models.adapted_base import AdaptedBase, LoraSettings
from .models.context_window import ContextSettings
from .policies.language_model import LanguageModelTeam, build_team
from .policies.policy import Policy, Request, text_action
from .policies.remote import RemotePolicy
from .policies.scripted import MixedPolicy, RandomPolicy, ScriptedPolicy
from .rollouts.rollout import collect
from .runs.evaluation import Evaluation, Interval, evaluate, paired_difference
from .runs.trainer import Schedule, Trainer
from .setting_fields import SettingsError
from .trajectory import Action, Episode, Trajectory, Turn

__version__: str

__all__ = [
    "ALGORITHMS",
    "Action",
    "AdaptedBase",
    "Algorithm",
    "ContextSettings",
    "Episode",
    "Evaluation",
    "Interval",
    "LanguageModelTeam",
    "Learner",
    "LearnerSettings",
    "LoraSettings",
    "MixedPolicy",
    "Policy",
    "RandomPolicy",
    "RemotePolicy",
    "Request",
    "SamplingLaw",
    "Schedule",
    "ScriptedPolicy",
    "SettingsError",
    "Trainer",
    "Trajectory",
    "Turn",
    "build_team",
    "collect",
    "evaluate",
    "learner_settings",
    "paired_difference",
    "text_action",
]
