"""Contender: this package's trainer (`LanguageModelTeam.act`, `Learner.update`), GRPO by default, or fine-tuning.

Settings follow TRL's defaults: one pass over the batch and no KL penalty. The micro-batch size is our own default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.training.hf_generate import touch
from benchmarks.training.workload import END_TOKEN, Workload
from benchmarks.training.workload import RecordedTurn as Sample
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import algorithm as algorithm_named
from marft_agents.learning.algorithms import learner_settings
from marft_agents.learning.learner import Learner
from marft_agents.learning.supervised import SupervisedLearner
from marft_agents.models.base_settings import Dtype, LoraSettings
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Request
from marft_agents.policies.team_building import build_team
from marft_agents.trajectory import Action, SampledTurn, Trajectory

NEVER_END = 0.25  # uniform numbers above this never sample the first token of the vocabulary, `END_TOKEN`


class Lengths(np.random.Generator):
    """Random generator that forces the length of a turn: its uniform number at the last position samples `END_TOKEN`.

    A token is sampled by inverting the cumulative distribution, so 0 gives the first token of the vocabulary.
    """

    def __init__(self, length: int, seed: int) -> None:
        super().__init__(np.random.PCG64(np.random.SeedSequence([seed, length])))
        self.length = length

    def random(self, size: Any = None, *rest: Any, **more: Any) -> Any:
        """Return uniform numbers in [`NEVER_END`, 1), with 0 at the position of the end token."""
        numbers = NEVER_END + (1 - NEVER_END) * super().random(size, *rest, **more)
        numbers[self.length - 1] = 0.0
        return numbers


def load(
    workload: Workload, algorithm: str = "grpo", dtype: Dtype = "float32", supervised: bool = False, **knobs: Any
) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the phases by name. With `supervised` the update imitates the actions of the batch."""
    team = build_team(
        workload.agents,
        {"*": workload.model},
        lora=LoraSettings(),
        sampling=SamplingParams(max_new_tokens=workload.cap),
        device=torch.device("cpu"),
        dtype=dtype,
    )
    for base in team.bases:
        base.end_ids = frozenset({END_TOKEN})
        touch(base.peft)
    if not algorithm_named(algorithm).critic:
        knobs |= {"kl_weight": 0.0}
    made = SupervisedLearner if supervised else Learner
    learner = made(team, learner_settings(algorithm, **knobs))
    batch = trajectories(workload)
    step = partial(imitate, learner) if isinstance(learner, SupervisedLearner) else partial(update, learner)
    return {"rollout": lambda: rollout(team, workload), "update": lambda: step(batch)}


def rollout(team: LanguageModelTeam, workload: Workload) -> Mapping[str, float]:
    """Generate the turns of all episodes, one agent after the other as in a game."""
    for agent in workload.agents:
        samples = workload.of(agent)
        requests = [Request(agent, s.observation, Lengths(len(s.token_ids), s.episode)) for s in samples]
        _check(samples, team.act(requests))
    return {}


def _check(samples: Sequence[Sample], actions: Sequence[Action]) -> None:
    """Raise RuntimeError if prompts or lengths differ from those of the workload."""
    for sample, action in zip(samples, actions, strict=True):
        found = (tuple(action.prompt_ids.tolist()), len(action.token_ids))
        if found != (sample.prompt_ids, len(sample.token_ids)):
            raise RuntimeError(
                f"{sample.agent} in episode {sample.episode}: generated {found[1]} tokens after {len(found[0])}, "
                f"wanted {len(sample.token_ids)} after {len(sample.prompt_ids)} and that prompt"
            )


def update(learner: Learner, batch: Sequence[Trajectory]) -> Mapping[str, float]:
    """Update on the batch; return the largest first-pass log-ratio of any policy."""
    metrics = learner.update(batch)
    found = [value for name, value in metrics.items() if name.endswith("first_pass_log_ratio_max")]
    return {"first_pass_log_ratio_max": max(found)}


def imitate(learner: SupervisedLearner, batch: Sequence[Trajectory]) -> Mapping[str, float]:
    """Imitate all actions of the batch in one step of each policy, as `marft sft` does."""
    actions: dict[str, list[Action]] = {}
    for trajectory in batch:
        for turn in trajectory.turns:
            actions.setdefault(turn.agent, []).append(turn.action)
    learner.imitate(actions)
    return {}


def trajectories(workload: Workload) -> list[Trajectory]:
    """Convert the workload to trajectories for the learner."""
    turns: dict[int, list[SampledTurn]] = {}
    last = workload.agents[-1]
    for sample in workload.turns:
        action = Action(
            text="",
            prompt_ids=np.asarray(sample.prompt_ids, np.int32),
            token_ids=np.asarray(sample.token_ids, np.int32),
            logprobs=np.asarray(sample.logprobs, np.float32),
            stopped=len(sample.token_ids) < workload.cap,
        )
        reward = workload.rewards[sample.episode] if sample.agent == last else 0.0
        turns.setdefault(sample.episode, []).append(SampledTurn(sample.agent, action, reward))
    return [
        Trajectory(
            seed=episode,
            group=episode // workload.group_size,
            turns=tuple(played),
            terminated=True,
            truncated=False,
        )
        for episode, played in sorted(turns.items())
    ]
