"""Policies and the learner: language-model teams with LoRA adapters, rollouts, multi-agent PPO and related algorithms.

Teams are trained in any PettingZoo AEC environment with text observations and actions. Public names load their module
(and torch) on first use:

    from marft_agents import Learner, LearnerSettings, LoraSettings, SamplingParams, Trainer, build_team

| folder | holds |
|---|---|
| `models` | pretrained base models, LoRA adapters, chat templates, attention over shared prefixes |
| `generation` | sampling, KV cache, continuous batching |
| `policies` | policy protocol; language-model, scripted and remote policies; vLLM and server samplers |
| `rollouts` | episodes of many games side by side, dynamic sampling, branching |
| `learning` | advantages, objectives, critic, the update, the algorithms |
| `monitoring` | statistics of actions, alarms |
| `runs` | training loop, checkpoints, rollback, run folder, evaluation |
"""

from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # takes 40 ms, a multiple of the rest of a light import

        return version("marft")
    return _load(name)
