"""Plan of a benchmark that can be run: tasks x teams x arms x algorithms x seeds, with all teams read."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from baselines.bench.arms import CONTROLS, OTHER_TRAINERS, SOLO, TEAM, TRAINED_AS, VOTE, WHOLE
from baselines.bench.plan_tables import TaskPlan
from baselines.experiment.environments import former_id, scenarios
from baselines.experiment.experiment import Experiment
from marft_agents.models.base_settings import Sharing
from marft_envs.registration.factory import takes


@dataclass(frozen=True)
class Control:
    """One agent that plays the problems of a task in an environment of its own.

    Attributes:
        env: Id of the environment.
        team: The agent, in the JSON form of a team.
        horizon: Rounds of its games.
    """

    env: str
    team: Mapping[str, Any]
    horizon: int


@dataclass(frozen=True)
class BenchTask:
    """A task with its teams read and its rounds known.

    Attributes:
        plan: Its table in the plan.
        teams: Teams by name, in their JSON form.
        solo: The one agent, in its JSON form.
        horizon: Rounds of every arm.
        solo_tokens: Tokens that the one agent may use in a round, by the team it is matched to; 0 where the turns of
            the team cannot be counted.
        controls: One agents by arm, of the arms in `CONTROLS` that are played.
    """

    plan: TaskPlan
    teams: Mapping[str, Mapping[str, Any]]
    solo: Mapping[str, Any]
    horizon: int
    solo_tokens: Mapping[str, int]
    controls: Mapping[str, Control] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.plan.name

    def env(self, arm: str = TEAM) -> str:
        """Return the id of an arm's environment."""
        control = self.controls.get(arm)
        return self.plan.env if control is None else control.env

    def keywords(self, split: str, team: Mapping[str, Any], arm: str = TEAM) -> dict[str, Any]:
        """Return the keywords of `marft_envs.make` for a team; of an arm in `CONTROLS`, with rounds of its own."""
        plan, control = self.plan, self.controls.get(arm)
        own: dict[str, Any] = {"data": plan.data} if plan.data else {}
        horizon = self.horizon if control is None else control.horizon
        own |= {"team": dict(team), "horizon": horizon, "feedback": plan.feedback}
        return own | ({"split": split} if takes(plan.env, "split") else {}) | dict(plan.keywords)

    def most_tokens(self, arm: str, team: str) -> int:
        """Return the longest turn of an arm in tokens: the team's, or for one agent that turns once all of the team's.

        Args:
            arm: Name of the arm.
            team: Team that plays, or that the one agent is matched to.
        """
        return self.solo_tokens[team] if arm in (SOLO, VOTE, WHOLE, *OTHER_TRAINERS) else self.plan.max_new_tokens

    def window(self, arm: str = TEAM) -> int:
        """Return the tokens of a prompt and its action together that an arm is held to; 0: nothing is enforced."""
        return 0 if arm == WHOLE else self.plan.context_window

    def is_routed(self, team: str) -> bool:
        """Return True if an orchestrator decides who acts in a team."""
        dependency = self.plan.keywords.get("dependency", self.teams[team].get("dependency"))
        return isinstance(dependency, Mapping) and dependency.get("kind") == "routed"

    def scenarios(self, env: Any, *, validation: bool = False) -> list[dict[str, Any]]:
        """Return the reset options of the test problems, or of those on which the grid is compared."""
        played = self.plan.tune if validation and self.plan.tune is not None else self.plan
        return scenarios(env, played.problems or None)

    def split(self, *, validation: bool = False) -> str:
        """Return the split of the test problems, or of those on which the grid is compared."""
        return self.plan.tune.split if validation and self.plan.tune is not None else self.plan.test_split

    def settings(self, arm: str, tried: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the settings of an arm's training that differ from those of the task.

        Args:
            arm: Name of the arm.
            tried: Settings of a cell of the grid, which take precedence.
        """
        told = {**self.plan.arm_settings.get(TRAINED_AS.get(arm, arm), {}), **(tried or {})}
        missing = object()
        return {name: value for name, value in told.items() if self.plan.settings.get(name, missing) != value}

    def grid(self, arm: str) -> list[dict[str, Any]]:
        """Return the settings of each cell of the grid of an arm; empty: its settings are not tuned."""
        return [] if self.plan.tune is None else self.plan.tune.cells(TRAINED_AS.get(arm, arm))

    def experiment(
        self,
        team: Mapping[str, Any],
        algorithm: str,
        seed: int,
        *,
        max_new_tokens: int,
        sharing: Sharing = "separate",
        budget: int = 0,
        updates: int | None = None,
        arm: str = TEAM,
        settings: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Return the configuration of a training.

        Args:
            team: The team in its JSON form.
            algorithm: Name of the algorithm.
            seed: Seed of the training.
            max_new_tokens: Longest turn in tokens.
            sharing: "separate" or "shared" adapters.
            budget: Generated tokens after which the training ends, whatever the settings say; 0: its updates end it.
            updates: Number of updates; None: that of the plan's settings.
            arm: Arm whose environment, rounds and window are used.
            settings: Settings that differ from those of the task, see `settings`.
        """
        given = {**self.plan.settings, **(settings or {}), "seed": seed, "max_new_tokens": max_new_tokens}
        if budget or updates is not None:
            given |= {"budget_tokens": budget, "updates": updates, "epochs": 0}
        if window := self.window(arm):
            given |= {"context_window": window, "overflow": "error"}
        agents = [] if arm in CONTROLS or team == self.solo else [profile["name"] for profile in team["profiles"]]
        own_models = {agent: model for agent, model in self.plan.models.items() if agent in agents}
        return Experiment(
            self.env(arm),
            preset=self.plan.preset,
            keywords=self.keywords(self.plan.train_split, team, arm),
            algorithm=algorithm,
            models={"*": self.plan.model, **own_models},
            sharing=sharing,
            dtype=self.plan.dtype,
            **given,
        )


@dataclass(frozen=True)
class BenchPlan:
    """A plan that can be run.

    Attributes:
        name: Name of the plan.
        tasks: Tasks in the order of the plan.
        arms: Names of `ARMS`.
        algorithms: Algorithms of the teams.
        solo_algorithms: Algorithms of the one agent.
        training_seeds: Seeds of the trainings; the outer level of all statistics.
        evaluation_seeds: Seeds of the sampling in each evaluation.
        arm_seeds: Training seeds of single arms that have fewer, by arm.
    """

    name: str
    tasks: tuple[BenchTask, ...]
    arms: tuple[str, ...]
    algorithms: tuple[str, ...]
    solo_algorithms: tuple[str, ...]
    training_seeds: tuple[int, ...]
    evaluation_seeds: tuple[int, ...]
    arm_seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """Arm that the others are compared with: the one agent, or the first that the world brings."""
        return SOLO if SOLO in self.arms else next((arm for arm in CONTROLS if arm in self.arms), SOLO)

    def plays(self, arm: str, seed: int) -> bool:
        """Return True if an arm is among those of the plan and has a training seed."""
        return arm in self.arms and seed in self.arm_seeds.get(arm, self.training_seeds)

    def task(self, name: str) -> BenchTask:
        """Return a task by name."""
        return next(task for task in self.tasks if task.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a record for JSON, with all teams written out."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        for task in plain["tasks"]:
            table = task["plan"]
            if not table["models"]:  # plans from before there were these keys keep their checksum
                del table["models"]
            if table["dtype"] == "auto":
                del table["dtype"]
            for key in ("context_window", "arm_settings", "tune"):
                if not table[key]:
                    del table[key]
            if not task["controls"]:
                del task["controls"]
        if not plain["arm_seeds"]:
            del plain["arm_seeds"]
        return plain

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the plan with all teams written out, 16 hexadecimal digits."""
        told = self.to_dict()
        for task in told["tasks"]:  # plans keep the checksum that recorded cells have
            task["plan"]["env"] = former_id(task["plan"]["env"])
        text = json.dumps(told, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
