"""Redirect old import paths: `marft_agents.trainer` is `marft_agents.runs.trainer` now."""

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PACKAGE = __name__.partition(".")[0]
# old module -> the modules that hold its names now
_MOVED: dict[str, tuple[str, ...]] = {
    "advantages": ("learning.advantages",),
    "algorithms": ("learning.algorithms",),
    "attention": ("models.tree_attention",),
    "batch": ("learning.batch",),
    "behaviour": ("monitoring.action_statistics",),
    "branching": ("rollouts.branching",),
    "chat": ("models.chat_template",),
    "checkpoint": ("runs.checkpoint", "policies.adapter_files"),
    "context": ("models.context_window", "trajectory"),
    "credit": ("learning.credit",),
    "critic": ("learning.critic",),
    "divergence": ("learning.divergence_error",),
    "evaluation": ("runs.evaluation", "trajectory"),
    "experience": ("rollouts.dynamic_sampling",),
    "forward": ("learning.token_log_probs",),
    "gated": ("models.gated_mlp",),
    "guard": ("runs.rollback",),
    "health": ("monitoring.alarms",),
    "history": ("monitoring.metric_history",),
    "language_model": ("policies.language_model", "models.adapted_base"),
    "learner": ("learning.learner",),
    "live_game": ("rollouts.running_game",),
    "objectives": ("learning.objectives",),
    "policy": ("policies.policy",),
    "policy_step": ("learning.policy_update",),
    "prefix_tree": ("models.prefix_tree",),
    "pretrained": ("models.pretrained",),
    "records": ("trajectory",),
    "remote": ("policies.remote",),
    "return_scale": ("learning.return_normalisation",),
    "rollout": ("rollouts.rollout",),
    "run_folder": ("runs.run_folder",),
    "sampler": ("policies.sampler",),
    "sampling": ("generation.sampling",),
    "scoring": ("learning.scoring",),
    "scripted": ("policies.scripted",),
    "server_sampler": ("policies.server_sampler",),
    "settings": ("learning.settings", "setting_fields"),
    "slots": ("generation.kv_cache",),
    "stepping": ("rollouts.background_steps",),
    "symptoms": ("monitoring.alarm_rules",),
    "trainer": ("runs.trainer",),
    "update_statistics": ("learning.update_metrics",),
    "validation": ("runs.validation",),
    "vllm_sampler": ("policies.vllm_sampler",),
    "words": ("learning.word_count",),
}


class _OldModules:
    """Finder and loader of moved modules by their old names, with a DeprecationWarning.

    It does not subclass the base classes of `importlib.abc`. Importing those takes longer than importing this package.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a moved module, or None."""
        package, _, module = name.rpartition(".")
        loader: Any = self
        return ModuleSpec(name, loader) if package == _PACKAGE and module in _MOVED else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that the import system creates an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill an old module with the public names of its replacements, and warn."""
        moved = [f"{_PACKAGE}.{name}" for name in _MOVED[module.__name__.rpartition(".")[2]]]
        warnings.warn(f"{module.__name__} is {moved[0]} now", DeprecationWarning, stacklevel=2)
        for name in moved:
            public = {key: value for key, value in vars(importlib.import_module(name)).items() if key[:2] != "__"}
            module.__dict__.update(public)


def redirect_old_modules() -> None:
    """Install the finder of old import paths once per process."""
    if not any(type(finder).__name__ == _OldModules.__name__ for finder in sys.meta_path):
        finder: Any = _OldModules()
        sys.meta_path.append(finder)
