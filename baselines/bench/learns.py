"""Test of whether an environment teaches anything: a tiny model of its words, trained with and without messages.

The model is random and knows only the words that solve the tasks and those of the prompts, so it can find a reward by
chance and learn from it within a minute on a CPU. A game that it does not learn may still be learned by a real model;
a game in which it never succeeds gives nobody a signal.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baselines.experiment.environments import factory, scenarios
from baselines.experiment.experiment import Experiment
from baselines.experiment.gold_answers import NoOracleError, gold_answer
from baselines.results.statistics import Interval, wilson
from marft_agents.models.random_models import OWN_WORDS
from marft_agents.runs.trainer import Trainer
from marft_envs.environment_capabilities import dependency_game, listing_game
from marft_envs.registration.factory import takes

MOST_WORDS = 48  # of right actions: every further word makes a success by chance rarer
FEW_WORDS = 24  # with those of the prompts, which fill up the places that are left
MOST_TOKENS = 8  # of an action
EPISODES = 128  # of an update
UPDATES = 24  # the copying of a digit is learned by then
WINDOWS = 8  # points of the printed curve
# As in the plan of the probe games, which learn with them in seconds
SETTINGS: Mapping[str, Any] = {
    "policy_lr": 5e-3,
    "critic_lr": 1e-2,
    "centring": "batch",
    "entropy_bonus": 0.05,
    "ppo_epochs": 4,
    "value_epochs": 2,
    "value_mini_batches": 1,
    "groups": EPISODES,
    "group_size": 1,
    "num_envs": EPISODES,
    "micro_batch": 4 * EPISODES,
    "gradient_checkpointing": 0.0,
    "temperature": 1.0,
}


@dataclass(frozen=True)
class Learns:
    """Success of both trainings, update by update.

    Attributes:
        env: Id of the environment.
        words: Words of the model.
        intact: Share of solved episodes of each update.
        muted: The same with all messages taken away; None for one agent, or a game whose messages cannot be muted.
        seconds: Duration of both trainings.
    """

    env: str
    words: tuple[str, ...]
    intact: Sequence[float]
    muted: Sequence[float] | None
    seconds: float

    @property
    def verdict(self) -> str:
        """One sentence: whether success rises, and whether the messages matter."""
        first, last = _ends(self.intact)
        if not any(self.intact):
            return (
                f"no signal: none of {len(self.intact) * EPISODES} episodes was solved, so there is nothing to learn "
                "from; make answers shorter, or pay for parts of an answer"
            )
        if last.low <= first.high:
            return f"not learned: success stays near {last.mean:.2f}; train longer (--updates), or look at the reward"
        rise = f"learned: success rises from {first.mean:.2f} to {last.mean:.2f}"
        if self.muted is None:
            return rise
        alone = _ends(self.muted)[1]
        if last.low > alone.high:
            return f"{rise}, and without messages only to {alone.mean:.2f}: the agents use what they tell each other"
        return f"{rise}, and to {alone.mean:.2f} without messages: they are not needed for it"

    def __str__(self) -> str:
        words = f"{len(self.words)} words ({' '.join(self.words[:6])} ...)"
        head = f"{self.env}, a random model of {words}: {len(self.intact)} updates in {self.seconds:.0f} s"
        lines = [head, f"{'updates':8}" + "".join(f"{end:>7}" for end in _window_ends(len(self.intact)))]
        for name, curve in (("intact", self.intact), ("muted", self.muted)):
            if curve is not None:
                lines.append(f"{name:8}" + "".join(f"{mean:7.2f}" for mean in _means(curve)))
        return "\n".join([*lines, self.verdict])


def learns(env_id: str, keywords: Mapping[str, Any], *, updates: int = UPDATES, seed: int = 0) -> Learns:
    """Train a random model of the environment's words, intact and muted, for the same number of updates.

    No clock decides, so the verdict is the same on a busy machine.

    Args:
        env_id: Id of the environment.
        keywords: Keywords of `marft_envs.make`.
        updates: Number of updates of each training.
        seed: Seed of the trainings.

    Raises:
        SettingsError: The environment cannot be trained on.
    """
    env = factory(env_id, keywords)()
    words, longest = words_of(env, scenarios(env, EPISODES))
    settings = {**SETTINGS, "seed": seed, "max_new_tokens": longest, "models": OWN_WORDS + " ".join(words)}
    can_be_muted = len(env.possible_agents) > 1 and takes(env_id, "communication")
    started = time.perf_counter()
    intact = _curve(env_id, keywords, settings, updates)
    muted = None
    if can_be_muted:
        muted = _curve(env_id, {**keywords, "communication": "none"}, settings, updates)
    return Learns(env_id, words, intact, muted, time.perf_counter() - started)


def words_of(env: Any, options: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], int]:
    """Return the words of an environment, those of right actions first, and the tokens that an action needs.

    Args:
        env: AEC environment to read.
        options: Reset options of the scenarios to read.
    """
    solving: Counter[str] = Counter()
    told: Counter[str] = Counter()
    longest = 0
    game = dependency_game(env)
    for option in options:
        env.reset(seed=option.get("seed", 0), options={k: v for k, v in option.items() if k != "seed"})
        action = _right_action(env).split()
        longest = max(longest, len(action))
        solving.update(action)
        shown: set[str] = set()  # a word counts once a scenario, however often it is said
        for agent in env.possible_agents:
            shown.update(_read(env.observe(agent)))
        told.update(shown)
    prompts: set[str] = set()
    for profile in () if game is None else game.team.profiles:
        prompts.update(profile.system_prompt.split())
    often = sorted(told, key=lambda word: (-told[word], word))  # sets have no order of their own
    words = [word for word, _ in solving.most_common(MOST_WORDS)]
    # Places that are left go to words of the tasks, then to those that the profiles repeat in every scenario.
    for word in sorted(often, key=lambda word: word in prompts):
        if len(words) < FEW_WORDS and word not in words:
            words.append(word)
    tokens = longest + 1 if longest else MOST_TOKENS // 2  # with the end of the action
    return tuple(words), min(tokens, MOST_TOKENS)


def _read(observation: Any) -> list[str]:
    """Return the words that the model reads of an observation."""
    messages = getattr(observation, "messages", None) or [{"content": str(observation)}]
    return " ".join(message["content"] for message in messages).split()


def _right_action(env: Any) -> str:
    """Return an action that solves the task being played, as far as it is known."""
    game = dependency_game(env)
    try:
        action = "" if game is None else gold_answer(game)
        # An empty box: these tasks have no gold answer, since a function rewards what is said.
        return "" if action == "\\boxed{}" else action
    except NoOracleError:
        listing = listing_game(env)
        return "" if listing is None else listing.task.answer


def _curve(env_id: str, keywords: Mapping[str, Any], settings: Mapping[str, Any], updates: int) -> list[float]:
    """Train, and return the share of solved episodes of each update."""
    experiment = Experiment(env_id, keywords=dict(keywords), updates=updates, **settings)
    make_env, team, learner = experiment.build()
    trainer = Trainer(make_env, team, learner, experiment.schedule)
    curve = []
    while not trainer.over:
        curve.append(trainer.step()["team/success"])
    return curve


def _window_ends(count: int) -> list[int]:
    """Return the last update of each window of the curve."""
    ends = np.linspace(0, count, min(WINDOWS, count) + 1).round()
    return [int(end) for end in np.unique(ends)[1:]]


def _means(curve: Sequence[float]) -> list[float]:
    ends = _window_ends(len(curve))
    return [float(np.mean(curve[start:end])) for start, end in zip([0, *ends], ends, strict=False)]


def _ends(curve: Sequence[float]) -> tuple[Interval, Interval]:
    """Return the success of the first and of the last window, with their 95 % Wilson intervals."""
    ends = _window_ends(len(curve))
    start = ends[-2] if len(ends) > 1 else 0
    means = _means(curve)
    return wilson(means[0], ends[0] * EPISODES), wilson(means[-1], (ends[-1] - start) * EPISODES)
