"""Validation on held-out tasks during training, and its sampling parameters."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from baselines.experiment.environments import factory, scenarios
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.validation import Validator
from marft_agents.setting_fields import SettingsError, check_knobs, knob
from marft_envs.environment_capabilities import listing_game
from marft_envs.registration.factory import takes

if TYPE_CHECKING:  # it imports torch, which settings do not need
    from marft_agents.policies.language_model import LanguageModelTeam

SEEDS = "seeds"
PLACE = re.compile(r"(?P<split>[^:]+)(?::(?P<limit>[1-9]\d*))?")


@dataclass(frozen=True)
class ValidationSettings:
    """Interval, tasks and decoding of the validation during training."""

    validate_every: int = knob(
        0,
        "play held-out tasks before the first update, after every n-th and after the last; 0: never",
        lambda v: v >= 0,
        ">= 0",
    )
    validate_on: str = knob(
        "test",
        "SPLIT or SPLIT:LIMIT, the tasks that `marft eval --limit` plays; seeds:LIMIT where an environment has no "
        "splits",
        lambda v: PLACE.fullmatch(v) is not None,
        "SPLIT or SPLIT:LIMIT, like test:100",
    )
    validate_greedy: bool = knob(False, "validate with temperature 0, not with the sampling parameters of training")
    validate_training_split: bool = knob(False, "allow to validate on the very tasks that are trained on")

    def __post_init__(self) -> None:
        check_knobs(self)


@dataclass(frozen=True)
class HeldOut:
    """Held-out tasks of a validation.

    Attributes:
        make_env: Makes an independent environment with the held-out tasks.
        options: Reset options of each task.
    """

    make_env: Callable[[], Any]
    options: Sequence[Mapping[str, Any]]

    def validator(
        self,
        team: LanguageModelTeam,
        settings: ValidationSettings,
        schedule: TrainingSchedule,
        *,
        warn: Callable[[str], None],
    ) -> Validator:
        """Return a validator that plays these tasks with a team; `warn` is told of failed episodes."""
        sampling = dataclasses.replace(team.sampling, temperature=0.0) if settings.validate_greedy else team.sampling
        return Validator(
            self.make_env,
            team.under(sampling),
            self.options,
            every=settings.validate_every,
            seed=schedule.seed,
            num_envs=schedule.num_envs,
            max_turns=schedule.max_turns,
            on_failures=lambda text: warn(f"validation: {text}"),
        )


def held_out_tasks(
    env_id: str,
    keywords: Mapping[str, Any],
    settings: ValidationSettings,
    env: Any,
    *,
    warn: Callable[[str], None],
) -> HeldOut | None:
    """Return the validation tasks of a run; None without validation.

    Args:
        env_id: Id of the training environment.
        keywords: Keywords of `marft_envs.make` in training.
        settings: Settings of the validation.
        env: Environment that the run trains on.
        warn: Is told of held-out tasks that are also trained on.

    Raises:
        SettingsError: All tasks are also training tasks, or the environment has no splits.
    """
    if not settings.validate_every:
        return None
    place = PLACE.fullmatch(settings.validate_on)
    assert place is not None  # `ValidationSettings` has checked the pattern
    split, limit = place["split"], None if place["limit"] is None else int(place["limit"])
    if not takes(env_id, "split"):
        if split != SEEDS:
            raise SettingsError(
                f"validate_on = {settings.validate_on!r}: {env_id} has no splits; wanted {SEEDS}:LIMIT, which plays "
                "the environment seeds 0, 1, ..."
            )
        make_env = factory(env_id, keywords)
    elif split == keywords.get("split", "train") and not settings.validate_training_split:
        raise SettingsError(
            f"validate_on = {settings.validate_on!r} is the split that is trained on; wanted another one, or "
            "--validate-training-split"
        )
    else:
        make_env = factory(env_id, {**keywords, "split": split})
        _refuse_trained(settings, env.unwrapped, make_env().unwrapped, warn)
    return HeldOut(make_env, scenarios(make_env(), limit))


def _refuse_trained(settings: ValidationSettings, trained: Any, held_out: Any, warn: Callable[[str], None]) -> None:
    """Refuse validation tasks that are all training tasks; warn if some are.

    A data set in a single file gives the same tasks for every split.
    """
    if listing_game(held_out) is None or settings.validate_training_split:
        return
    # By prompt, since splits may number the same problems differently. Sets of tasks need not be iterable.
    seen = {_text(trained.tasks[i]) for i in range(len(trained.tasks))}
    again = 0
    for i in range(len(held_out.tasks)):
        if _text(held_out.tasks[i]) in seen:
            again += 1
    if again == len(held_out.tasks):
        raise SettingsError(
            f"validate_on = {settings.validate_on!r}: all {again} tasks are also trained on; wanted held-out tasks, or "
            "--validate-training-split"
        )
    if again:
        warn(f"validation: {again} of {len(held_out.tasks)} tasks are also trained on")


def _text(task: Any) -> Any:
    return getattr(task, "prompt", task)
