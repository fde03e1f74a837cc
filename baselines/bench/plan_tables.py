"""Tables of a plan file: their keys, with defaults, help texts and checks of the values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from baselines.bench.arms import ARMS, FOR_ANY_TEAM, WHOLE
from baselines.experiment.experiment import DEFAULT_MODEL
from baselines.experiment.presets import PRESETS
from marft_agents.models.base_settings import Dtype
from marft_agents.setting_fields import check_knobs, knob

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
HUGE = 2**63  # whole numbers of libraries end here
MOST_ROUNDS = 10_000

# Checks of the values of a TOML file, whose types nothing has checked; `type(...) is int` excludes true and false.


def is_name(value: Any) -> bool:
    """Return True if a value can be part of the name of a record's file."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value  # which no file name may have


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < HUGE


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(_is_text(item) for item in value)


def _are_some_texts(value: Any) -> bool:
    return _are_texts(value) and bool(value)


def _are_seeds(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(_is_count(item) for item in value)


def _are_tables(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(item, Mapping) for item in value.values())


def _are_models(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_text(model) and model for model in value.values())


def _is_grid(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(values, list) and values for values in value.values())
    return isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value)


def _are_grids(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_grid(grid) for grid in value.values())


_GRID = "a table of settings and lists of values, or a list of tables of settings"


@dataclass(frozen=True)
class TunePlan:
    """Grid of settings whose best cell is chosen on validation problems: the table `tune` of a task."""

    split: str = knob("validation", "split of the validation problems", _is_text, "a text")
    problems: int = knob(0, "validation problems, spread evenly over the split; 0: all", _is_count, ">= 0")
    tokens: int = knob(
        0, "generated tokens of the training of each cell of the grid", lambda v: _is_count(v) and v >= 1, ">= 1"
    )
    seed: int = knob(0, "seed of these trainings, and of the sampling on the validation problems", _is_count, ">= 0")
    grid: Any = knob((), f"settings to try for each trained arm: {_GRID}", _is_grid, _GRID)
    grids: Mapping[str, Any] = knob(
        None, "own grids of single arms, with as many cells", _are_grids, f"a table of arms and grids, each {_GRID}"
    )

    def __post_init__(self) -> None:
        if self.grids is None:
            object.__setattr__(self, "grids", {})
        check_knobs(self)

    def cells(self, arm: str) -> list[dict[str, Any]]:
        """Return the settings of each cell of an arm's grid; a table of lists stands for all combinations."""
        grid = self.grids.get(arm, self.grid)
        if not isinstance(grid, Mapping):
            return [dict(cell) for cell in grid]
        return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


@dataclass(frozen=True)
class TaskPlan:
    """One task of a plan: a table `[[tasks]]` of the file."""

    name: str = knob("", "name of the task in cells and tables", is_name, "letters, digits, '_', '.', '-'")
    env: str = knob("", "id of the environment", lambda v: _is_text(v) and bool(v), "the id of an environment")
    data: str = knob("", "data of the environment; empty: its own", _is_text, "a text")
    model: str = knob(DEFAULT_MODEL, "model of all agents", _is_text, "the name of a model")
    models: Mapping[str, str] = knob(
        None,
        "models of single agents of the teams, by agent: MODEL, frozen:MODEL, endpoint:URL#NAME or a2a:URL",
        _are_models,
        "a table of agents and models",
    )
    dtype: Dtype = knob(
        "auto",
        "dtype of the frozen models; auto: bfloat16 on CUDA, float32 on the CPU",
        lambda v: v in get_args(Dtype),
        f"one of {', '.join(get_args(Dtype))}",
    )
    teams: tuple[str, ...] = knob(
        (), "presets or files of the teams; empty: the environment's own team", _are_texts, "a list of presets or files"
    )
    solo: str = knob("", "preset or file of the one agent; empty: the environment's own", _is_text, "a preset or file")
    train_split: str = knob("train", "split that is trained on", _is_text, "a text")
    test_split: str = knob("test", "split that is evaluated on", _is_text, "a text")
    test_on_trained: bool = knob(
        False, "allow test problems that are also trained on", lambda v: isinstance(v, bool), "true or false"
    )
    problems: int = knob(0, "test problems, spread evenly over the split; 0: all", _is_count, ">= 0")
    horizon: int = knob(
        0,
        "rounds of every arm; 0: those of the environment",
        lambda v: _is_count(v) and v <= MOST_ROUNDS,
        f"0 to {MOST_ROUNDS:,}",
    )
    feedback: str = knob(
        "none", "what all arms are told of a round's verdict", lambda v: v in ("none", "verdict"), "none or verdict"
    )
    max_new_tokens: int = knob(
        16, "longest turn of a team's agent, in tokens", lambda v: _is_count(v) and v >= 1, ">= 1"
    )
    temperature: float = knob(
        0.8, "temperature of the evaluation", lambda v: type(v) in (int, float) and 0 <= v < HUGE, ">= 0"
    )
    training_tokens: int = knob(
        0,
        "generated tokens of every training; 0: teams train for their updates, and the one agent gets as many tokens",
        _is_count,
        ">= 0",
    )
    context_window: int = knob(
        0,
        f"tokens of a prompt and its action together, for every arm but {WHOLE}: a longer prompt is an error; 0: that "
        "of the preset, which shortens prompts",
        _is_count,
        ">= 0",
    )
    preset: str = knob("laptop", "preset of the training", lambda v: v in PRESETS, f"one of {', '.join(PRESETS)}")
    settings: Mapping[str, Any] = knob(
        None, "settings of the training that differ from the preset", _is_table, "a table"
    )
    arm_settings: Mapping[str, Mapping[str, Any]] = knob(
        None,
        "settings of the trainings of single arms that differ from those of the task, by arm",
        _are_tables,
        "a table of arms and tables of settings",
    )
    tune: TunePlan | None = knob(None, "grid of settings; the best on validation problems is tested")
    keywords: Mapping[str, Any] = knob(None, "further keywords of the environment", _is_table, "a table")

    def __post_init__(self) -> None:
        for name in ("models", "settings", "arm_settings", "keywords"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        check_knobs(self)


@dataclass(frozen=True)
class PlanTable:
    """Top level of a plan file."""

    name: str = knob("", "name of the plan", is_name, "letters, digits, '_', '.', '-'")
    arms: tuple[str, ...] = knob(FOR_ANY_TEAM, "arms to play", _are_some_texts, f"a list of {', '.join(ARMS)}")
    algorithms: tuple[str, ...] = knob(("marft-a",), "algorithms of the teams", _are_some_texts, "a list of algorithms")
    solo_algorithms: tuple[str, ...] = knob(
        (), "algorithms of the one agent; empty: those of the teams", _are_texts, "a list of algorithms"
    )
    training_seeds: tuple[int, ...] = knob((0,), "training seeds", _are_seeds, "a list of whole numbers >= 0")
    evaluation_seeds: tuple[int, ...] = knob((0,), "sampling seeds", _are_seeds, "a list of whole numbers >= 0")
    arm_seeds: Mapping[str, Any] = knob(
        None, "training seeds of single arms that have fewer, by arm", _is_table, "a table of arms and lists of seeds"
    )
    defaults: Mapping[str, Any] = knob(None, "keys of all tasks; a task's own take precedence", _is_table, "a table")
    tasks: tuple[Any, ...] = field(default=(), metadata={"help": "the tasks"})

    def __post_init__(self) -> None:
        for name in ("defaults", "arm_seeds"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        check_knobs(self)
