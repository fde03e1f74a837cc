from .generation.sampling import SamplingParams
from .learning.algorithms import ALGORITHMS, Algorithm, learner_settings
from .learning.learner import Learner
from .learning.settings import LearnerSettings
from .models.adapted_base import AdaptedBase
from .models.base_settings import LoraSettings
from .models.context_window import ContextSettings
from .policies.action_scores import ActionScores
from .policies.language_model import LanguageModelTeam
from .policies.policy import Policy, Request, text_action
from .policies.remote import RemotePolicy
from .policies.scripted import MixedPolicy, RandomPolicy, ScriptedPolicy
from .policies.team_building import build_team
from .rollouts.rollout import collect, training_episodes
from .runs.evaluation import Evaluation, Interval, evaluate
from .runs.schedule import TrainingSchedule
from .runs.trainer import Trainer
from .setting_fields import SettingsError
from .trajectory import Action, EpisodeStart, SampledTurn, Trajectory

__version__: str

__all__ = [
    "ALGORITHMS",
    "Action",
    "ActionScores",
    "AdaptedBase",
    "Algorithm",
    "ContextSettings",
    "EpisodeStart",
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
    "SampledTurn",
    "SamplingParams",
    "ScriptedPolicy",
    "SettingsError",
    "Trainer",
    "TrainingSchedule",
    "Trajectory",
    "build_team",
    "collect",
    "evaluate",
    "learner_settings",
    "text_action",
    "training_episodes",
]
