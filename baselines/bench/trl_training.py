"""Train one agent with TRL's GRPOTrainer, within a budget of generated tokens.

TRL gets a plain model with a LoRA adapter of the same rank, scale and target layers as ours. It reads the chat prompt
that our policy would read, with profile, worked examples and problem, token by token the same. Our rollout plays the
game with each completion, and TRL is paid the team reward. At the end its adapter becomes that of our agent, so an
evaluation does not depend on who trained it.

The agent has one turn in its game. The bridge for agents of any number of turns (`marft_envs.bridges.trl`) takes turns
by calls of a tool. That needs a chat template with tools and another prompt, so it is not used here.

Taken from the experiment: `policy_lr`, `groups` per step, `group_size`, sampling parameters, longest answer and seed.
All else is TRL's default: loss, clipping, AdamW, gradient norm. The one exception is a constant step size, since a
budget of tokens does not tell the number of steps. `TRL_DEFAULTS` has TRL's own values of the settings that are taken.

A killed training starts anew: TRL's checkpoints do not repeat the samples of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from transformers import TrainerCallback

from baselines.bench.arms import OTHER_TRAINERS, TRL
from baselines.experiment.environments import factory, keep_grades, notes_of
from baselines.experiment.experiment import Experiment
from baselines.experiment.progress import Ended, Progress, Started, Updated, silent
from baselines.experiment.run_surface import keep_surface
from marft_agents.metric_names import TOKENS_TOTAL
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.chat_template import messages_of, turns_of
from marft_agents.models.model_error import ModelError
from marft_agents.models.pretrained import load
from marft_agents.monitoring.cost_ledger import ledger_of
from marft_agents.policies.adapter_files import unpack_adapters
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.rollouts.prompt_groups import episode_metrics
from marft_agents.rollouts.rollout import collect, draw_seed
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder
from marft_agents.trajectory import EpisodeStart, IntArray, Trajectory

TRL_DEFAULTS: Mapping[str, float] = MappingProxyType(
    {"policy_lr": 1e-6, "groups": 1, "group_size": 8, "temperature": 1.0}
)
MOST_ROWS = 10_000  # prompts that are drawn before a training; a longer one plays them again


class AnsweredGames:
    """Games of one agent, played with answers that another program samples; a reward function of TRL.

    Args:
        make_env: Makes an independent AEC environment of one agent with one turn.
        team: Team of this agent; encodes prompts and builds the records of actions.
        seed: Seed of the run. The n-th row is the n-th prompt group of a training of ours with this seed.
        num_envs: Number of games played at the same time.

    Attributes:
        played: Episodes since the caller last emptied it.
        answered: When the last of them ended, in seconds of `time.perf_counter`.
    """

    __name__ = "team_reward"  # in TRL's logs

    def __init__(self, make_env: Callable[[], Any], team: LanguageModelTeam, seed: int, num_envs: int) -> None:
        self.make_env, self.team, self.seed, self.num_envs = make_env, team, seed, num_envs
        [self.agent] = team.agents
        self.base = team.local_agent(self.agent).base
        self.played: list[Trajectory] = []
        self.answered = 0.0
        self._prompts: list[IntArray] = []
        self._count = 0

    def rows(self, count: int) -> list[dict[str, Any]]:
        """Draw problems; return a row of TRL's data set for each: "prompt", a chat, and "number".

        Raises:
            ModelError: TRL would feed the model other tokens than our policy.
        """
        env, tokenizer, rows = self.make_env(), self.base.tokenizer, []
        for number in range(count):
            env.reset(seed=draw_seed(self.seed, number))
            observation = env.observe(self.agent)
            turns, ids = turns_of(tokenizer, messages_of(observation)), self.team.encode(self.agent, observation)
            theirs = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=True)
            if theirs["input_ids"] != ids.tolist():
                raise ModelError(
                    f"{self.base.name}: TRL reads {len(theirs['input_ids'])} tokens where our policy reads {len(ids)}: "
                    "wanted prompts that fit the context window, and a tokenizer that adds no special tokens to a chat"
                )
            self._prompts.append(ids)
            rows.append({"prompt": turns, "number": number})
        return rows

    def __call__(self, completion_ids: Sequence[Sequence[int]], number: Sequence[int], **_: Any) -> list[float | None]:
        """Play a game with each completion; return the team rewards, None for a game that failed.

        Args:
            completion_ids: Sampled tokens of each completion, the end token included.
            number: Row of each completion.
        """
        starts = []
        for place, (ids, group) in enumerate(zip(completion_ids, number, strict=True), self._count):
            action = self.base.action(self._prompts[group], ids, [0.0] * len(ids), exact=False)
            starts.append(EpisodeStart(place, group, draw_seed(self.seed, group), prefix=(action,)))
        self._count += len(starts)
        played = collect(
            self.make_env, self.team, starts, seed=self.seed, num_envs=self.num_envs, max_turns=1, valued=()
        )
        self.played += played
        self.answered = time.perf_counter()
        return [None if episode.failure is not None else episode.team_return for episode in played]


class _Recorder(TrainerCallback):
    """Records the episodes of each optimizer step, and ends the training once the budget is spent."""

    def __init__(self, games: AnsweredGames, folder: RunFolder, budget: int, progress: Progress) -> None:
        self.games, self.folder, self.budget, self.progress = games, folder, budget, progress
        self.tokens = 0
        self.started = time.perf_counter()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock of a step; TRL calls this before it samples."""
        self.started = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Log the step; TRL calls this after each optimizer step, before which it has sampled once."""
        games = self.games
        ledger = ledger_of(games.played, games.team.caches)
        self.tokens += ledger.team.output_tokens or 0
        metrics = episode_metrics(games.played) | ledger.metrics() | {TOKENS_TOTAL: float(self.tokens)}
        metrics |= {"seconds/rollout": games.answered - self.started}
        metrics |= {"seconds/update": time.perf_counter() - games.answered}
        self.folder.log(state.global_step - 1, metrics, games.played)
        games.played = []
        self.progress(Updated(state.global_step - 1, metrics))
        control.should_training_stop = self.tokens >= self.budget


def train_with_trl(experiment: Experiment, out: Path, *, progress: Progress = silent) -> None:
    """Train the one agent of an experiment with TRL; write metrics, episodes and a checkpoint to a run folder.

    Args:
        experiment: Configuration of the run, with a budget of tokens. See the module for the settings that are used.
        out: Run folder to write. A finished training in it stays as it is, an unfinished one is removed.
        progress: Gets the events of the training; an update is an optimizer step.

    Raises:
        ModelError: TRL would feed the model other tokens than our policy.
    """
    from datasets import Dataset
    from peft import get_peft_model_state_dict
    from safetensors.torch import save
    from trl import GRPOTrainer

    if checkpoint.latest(out / "checkpoints") is not None:
        return
    if (out / "config.json").is_file():  # of a killed training
        shutil.rmtree(out)
    schedule = experiment.schedule
    make_env = factory(experiment.env, experiment.keywords)
    env = make_env()
    keep_grades(env, out)
    team, learner = experiment.load_models(env.possible_agents, experiment.check(env))
    with contextlib.closing(team), tempfile.TemporaryDirectory() as scratch:
        games = AnsweredGames(make_env, team, schedule.seed, schedule.num_envs)
        base = games.base
        # A completion has at least one token.
        rows = games.rows(min(MOST_ROWS, schedule.groups * -(-schedule.budget_tokens // schedule.group_size)))
        recorded_experiment = dataclasses.replace(experiment, algorithm=OTHER_TRAINERS[TRL])
        folder = RunFolder(out, recorded_experiment.to_dict(), notes=notes_of(env))
        keep_surface(env, out)
        recorder = _Recorder(games, folder, schedule.budget_tokens, progress)
        loaded = load(base.name, device=base.device, dtype=base.dtype)
        loaded.model.generation_config.eos_token_id = sorted(base.end_ids)  # TRL ends completions where we do
        trainer = GRPOTrainer(
            model=loaded.model,
            processing_class=loaded.tokenizer,
            peft_config=copy.deepcopy(base.lora_config(games.agent)),
            reward_funcs=games,
            args=_settings_of_trl(experiment, base, scratch),
            train_dataset=Dataset.from_list(rows),
            callbacks=[recorder],
        )
        progress(Started(None, tuple(team.policies), schedule.budget_tokens, experiment.sampling.max_new_tokens))
        trainer.train()
        progress(Ended())
        tensors = get_peft_model_state_dict(trainer.model)
        found = {name: tensor.detach().float().cpu().contiguous() for name, tensor in tensors.items()}
        unpack_adapters(team, {games.agent: save(found)})
        learner.updates = trainer.state.global_step
        checkpoint.save(
            folder.checkpoints, team, learner, notes=folder.notes, tokens_total=recorder.tokens, records=folder.lines
        )
        folder.close()


def _settings_of_trl(experiment: Experiment, base: AdaptedBase, scratch: str) -> Any:
    """Return the `GRPOConfig` of a training: what is taken from the experiment, and TRL's defaults for all else.

    Args:
        experiment: Configuration of the run.
        base: Base model of the agent, for the device and the dtype.
        scratch: Folder for files that TRL writes.
    """
    from trl import GRPOConfig

    schedule, sampling = experiment.schedule, experiment.sampling
    return GRPOConfig(
        output_dir=scratch,
        seed=schedule.seed,
        learning_rate=experiment.learner.policy_lr,
        lr_scheduler_type="constant",
        num_generations=schedule.group_size,
        per_device_train_batch_size=schedule.group_size,  # a prompt group at a time, to save memory
        gradient_accumulation_steps=schedule.groups,
        max_steps=schedule.budget_tokens,  # the budget ends it earlier
        max_completion_length=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        shuffle_dataset=False,  # the rows are drawn at random
        use_cpu=base.device.type == "cpu",
        bf16=base.dtype == torch.bfloat16,
        dataloader_pin_memory=base.device.type == "cuda",
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
    )
