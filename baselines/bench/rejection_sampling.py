"""Rejection-sampling fine-tuning of a team on its own solved answers, within a budget of generated tokens.

The budget is spent in `ITERATIONS` equal parts. Each iteration

1. samples: plays prompt groups of the training data with the present adapters until its part of the budget is spent;
2. filters: keeps the solved answers of all iterations so far, each text once per problem;
3. fine-tunes untrained adapters on them, as `marft sft` does. The next iteration samples with these.

To sample, filter and start anew from the base model is STaR (arXiv 2203.14465) and ReST-EM (arXiv 2312.06585). Several
samples per problem, of which distinct ones are kept, is RFT (arXiv 2308.01825). Unlike in ReST-EM the answers of
earlier iterations stay, since a small budget has few. Unlike in STaR no gold answer is ever shown.

The run folder is that of a training, with a line of metrics, episodes and a checkpoint for each iteration. A killed
training goes on after its last finished iteration and equals an undisturbed one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import marft_envs
from baselines.bench.arms import OTHER_TRAINERS, RFT
from baselines.experiment.environments import factory, keep_grades, notes_of
from baselines.experiment.experiment import Experiment
from baselines.experiment.progress import Ended, Progress, Started, Updated, silent
from baselines.experiment.run_surface import keep_surface
from baselines.experiment.training import keep_as_own
from baselines.training_data.conditions import Condition
from baselines.training_data.demonstrations import demonstrations
from baselines.training_data.from_runs import build
from baselines.training_data.recordings import read_recording
from baselines.training_data.turn_file import Example
from marft_agents.learning.supervised import SupervisedLearner
from marft_agents.metric_names import TOKENS_TOTAL
from marft_agents.monitoring.cost_ledger import Ledger, ledger_of
from marft_agents.policies.adapter_files import pack_adapters, unpack_adapters
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.rollouts.prompt_groups import GroupSettings, episode_metrics
from marft_agents.rollouts.rollout_source import GroupPlayer, LocalRollouts
from marft_agents.runs import checkpoint
from marft_agents.runs.folder_lock import owned
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.supervised_trainer import SupervisedSettings, SupervisedTrainer
from marft_agents.trajectory import Trajectory

ITERATIONS = 3  # few, as in ReST-EM: each fine-tunes anew on all answers so far
BATCH_SIZE = 8  # answers per optimizer step; there are dozens, of which larger batches make few steps
FEWEST_STEPS = 40  # of a fine-tuning, as in the first iteration of STaR: few answers are repeated for more epochs
DRAWS = "team/draws"  # metric: prompt groups played


def fine_tuning_settings(experiment: Experiment) -> SupervisedSettings:
    """Return the settings of the fine-tuning: those of `marft sft`, with step size and memory of the experiment."""
    learner = experiment.learner
    return SupervisedSettings(
        batch_size=BATCH_SIZE,
        policy_lr=learner.policy_lr,
        micro_batch=learner.micro_batch,
        gradient_checkpointing=learner.gradient_checkpointing,
        seed=experiment.schedule.seed,
    )


def train_on_solved(experiment: Experiment, out: Path, *, resume: bool = False, progress: Progress = silent) -> None:
    """Train a team on its own solved answers; write metrics, episodes and checkpoints to a run folder.

    Args:
        experiment: Configuration of the run, with a budget of tokens. Of the learner's settings only those of
            `fine_tuning_settings` are used.
        out: Run folder to write.
        resume: True goes on after the last finished iteration in `out`.
        progress: Gets the events of the training; an update is an iteration.

    Raises:
        AllEpisodesFailedError: All episodes of a rollout failed.
    """
    make_env, schedule = factory(experiment.env, experiment.keywords), experiment.schedule
    env, budget = make_env(), schedule.budget_tokens
    keep_grades(env, out)
    with owned(out), contextlib.closing(experiment.build_team(env.possible_agents)) as team:
        untrained = pack_adapters(team)
        done, recorded = 0, None
        if resume and (newest := checkpoint.latest(out / "checkpoints")) is not None:
            checkpoint.load_adapters(newest, team)
            done, recorded = int(checkpoint.read_state(newest)["updates"]), checkpoint.records_of(newest)
        recorded_experiment = replace(experiment, algorithm=OTHER_TRAINERS[RFT])
        folder = RunFolder(out, recorded_experiment.to_dict(), resume_at=done, recorded=recorded, notes=notes_of(env))
        keep_surface(env, out)
        if done:  # a run of this user from here on, whoever began it
            keep_as_own(out, recorded_experiment)
        history = read_metrics(out) if done else []
        tokens = int(history[-1][TOKENS_TOTAL]) if done else 0
        rollouts = sum(int(line[DRAWS]) for line in history) // schedule.groups
        source = LocalRollouts(
            GroupPlayer(
                make_env,
                team,
                team,
                GroupSettings(schedule.seed, schedule.groups, schedule.group_size),
                num_envs=schedule.num_envs,
                max_turns=schedule.max_turns,
            )
        )
        progress(Started(None, tuple(team.policies), budget, experiment.sampling.max_new_tokens))
        while tokens < budget:
            started = time.perf_counter()
            played: list[Trajectory] = []
            ledger, first, goal = Ledger(), rollouts, next_goal(tokens, budget)
            while tokens + _tokens(ledger) < goal:
                experience, seconds, _ = source.rollout(rollouts)
                ledger += ledger_of(experience.played, team.caches, seconds_generation=seconds)
                played += experience.played
                rollouts += 1
            tokens += _tokens(ledger)
            metrics = episode_metrics(played) | ledger.metrics()
            sampled = time.perf_counter()
            metrics |= {"seconds/rollout": sampled - started}
            metrics |= {DRAWS: float((rollouts - first) * schedule.groups), TOKENS_TOTAL: float(tokens)}
            folder.log(done, metrics, played)
            learner = _fine_tune(
                team, solved_answers(experiment, out, team), fine_tuning_settings(experiment), untrained
            )
            done += 1
            learner.updates = done  # names the checkpoint
            checkpoint.save(
                folder.checkpoints, team, learner, notes=folder.notes, tokens_total=tokens, records=folder.lines
            )
            progress(Updated(done - 1, metrics | {"seconds/update": time.perf_counter() - sampled}))
        progress(Ended())
        folder.close()


def next_goal(tokens: int, budget: int) -> int:
    """Return the tokens that the next iteration is to reach: the next multiple of the budget's equal parts.

    Examples:
        >>> next_goal(0, 90), next_goal(29, 90), next_goal(60, 90)
        (30, 30, 90)
    """
    return -(-budget * (tokens * ITERATIONS // budget + 1) // ITERATIONS)


def _tokens(ledger: Ledger) -> int:
    return ledger.team.output_tokens or 0


def solved_answers(experiment: Experiment, run: Path, team: LanguageModelTeam) -> list[Example]:
    """Return the distinct turns of all solved episodes of a run.

    Left out are the few that the tokenizer spells with more tokens than a turn may have: the model sampled them with
    other tokens, such as bytes that are no text.

    Args:
        experiment: Configuration of the run.
        run: Run folder with the episodes.
        team: Team that encodes them.
    """
    recording = read_recording(
        run, lambda env_id: (experiment.keywords, marft_envs.make(env_id, **experiment.keywords))
    )
    if not any(episode.facts["success"] for episode in recording.episodes):
        return []
    # They were played on the data that the plan trains on, whatever its split is called.
    found = build([recording], Condition.read("success"), splits=(), held_out=0.0).examples

    def fits(example: Example) -> bool:
        turn = example.turn
        ids = team.local_agent(turn.agent).base.tokenizer(turn.action, add_special_tokens=False)["input_ids"]
        return len(ids) + turn.ended <= team.sampling.max_new_tokens

    return [example for example in found if fits(example)]


def _fine_tune(
    team: LanguageModelTeam, answers: Sequence[Example], settings: SupervisedSettings, untrained: Mapping[str, bytes]
) -> SupervisedLearner:
    """Fine-tune untrained adapters on answers; without any they stay untrained."""
    unpack_adapters(team, untrained)
    train = demonstrations(Path("solved answers"), answers, team)
    per_epoch = settings.steps_per_epoch(train)
    settings = replace(settings, epochs=max(settings.epochs, -(-FEWEST_STEPS // max(1, per_epoch))))
    learner = SupervisedLearner(team, settings.learner, seed=settings.seed, total_updates=settings.epochs * per_epoch)
    SupervisedTrainer(team, learner, settings, train, {}).run()
    return learner
