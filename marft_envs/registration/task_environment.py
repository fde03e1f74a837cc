"""Environments of a task, one for each team: `{namespace}/{task}_{team}-v{N}`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marft_envs.dependency import as_dependency
from marft_envs.game import FlexMG
from marft_envs.game.rewards import RecordedReward
from marft_envs.game.task import Tasks, TeamBound
from marft_envs.registration.registry import EnvSpec, check_id, register
from marft_envs.teams.profile import TeamError
from marft_envs.teams.team import PRESETS, Team, as_team, check_preset

_OF_THE_GAME = frozenset(inspect.signature(FlexMG).parameters) - {"tasks", "name"}
_OF_ANY_TASK = frozenset({"data", "split", "team", "grader"})


@dataclass(frozen=True)
class TaskEnvironment:
    """A task with a team; calling it makes the bare game.

    Attributes:
        id: Id of the environment.
        factory: `factory(data=..., split=..., **own)` returns the task set.
        team: Name of a preset, or an own team (or the path of its file).
        language: Language of presets.
        family: Family of presets.
        own: Further keywords of the factory that the user may give.
        rules: Keywords of the factory that the version decides, and not the user.
        solo: Name of the preset, or the team, of one agent that plays the same tasks; for comparisons with the team.
        controls: Ids of environments in which one agent plays the same tasks otherwise, by arm of `marft bench`.
        defaults: Keywords of the factory that hold unless the user gives others, or a set of tasks that is made
            already.
    """

    id: str
    factory: Callable[..., Tasks] = field(repr=False)
    team: Team | str = field(repr=False)
    language: str = field(default="en", repr=False)
    family: str = field(default="math", repr=False)
    own: frozenset[str] = field(default=frozenset(), repr=False)
    rules: Mapping[str, Any] = field(default_factory=dict, repr=False)
    solo: Team | str = field(default="solo", repr=False)
    controls: Mapping[str, str] = field(default_factory=dict, repr=False)
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __call__(
        self, *, data: Any = "embedded", split: str = "train", team: Any = None, grader: Any = None, **kwargs: Any
    ) -> FlexMG:
        """Make the bare game.

        Args:
            data: "embedded", "embedded:NAME", a path to JSON, JSONL, CSV or Parquet, a folder with one such file a
                split, "hub:owner/name", or a set of tasks itself.
            split: Split of the data.
            team: A `Team`, its JSON form, a path or the name of another preset; None is the preset.
            grader: Grader in place of the task's own, or beside it: "text", "number", "endpoint:URL", "model:URL#NAME",
                "module:function", the path of a TOML file, or the fields of `GraderSettings`. None is the task's own.
            **kwargs: Keywords of `FlexMG` and of the factory.

        Raises:
            TypeError: Keywords of the factory for a task set that is made already.
            ValueError: Such a task set has other rules.
        """
        own = {key: kwargs.pop(key) for key in self.own & set(kwargs)}
        if isinstance(data, os.PathLike):
            data = os.fspath(data)
        if isinstance(data, Tasks):
            self._check_given(data, own)
            tasks = data
        else:
            tasks = self.factory(data=data, split=split, **{**self.defaults, **own}, **self.rules)
        playing = self.read_team(self.team if team is None else team)
        if isinstance(tasks, TeamBound):
            dependency = kwargs.get("dependency")
            tasks = tasks.for_team(playing, None if dependency is None else as_dependency(dependency))
        if grader is not None:
            from marft_envs.graders import GradedTasks

            tasks = GradedTasks(tasks, grader)
        return FlexMG(tasks, playing, name=self.id, **kwargs)

    def of_record(
        self,
        surface: Mapping[str, Any],
        *,
        data: Any = "embedded",
        split: str = "train",
        reward: Any = None,
        grader: Any = None,
        **kwargs: Any,
    ) -> FlexMG:
        """Make the game that rebuilds the texts of recorded episodes: see `recorded_game`.

        Args:
            surface: Team and tools of the run, see `surface_of`.
            data: As for the game itself.
            split: Split of the data.
            reward: Reward of the run, whose own terms are named and not imported.
            grader: Grader of the run, which is described and not made.
            **kwargs: Other keywords of the run; `team`, `tools` and `judge` are left out.
        """
        from marft_envs.graders.graded_tasks import RecordedGrades
        from marft_envs.tasks.tools.connectors.tool_file import RecordedTools
        from marft_envs.tasks.tools.tool_access import Surface
        from marft_envs.tasks.worlds.task_loading import load_tasks

        kwargs = {key: value for key, value in kwargs.items() if key not in ("team", "judge")}
        connected = kwargs.pop("tools", None) is not None
        own = {key: kwargs.pop(key) for key in self.own & set(kwargs)}
        team = Team.from_dict(surface["team"])
        if connected:
            given = None if data == "embedded" else load_tasks(data, split)
            tasks: Tasks = RecordedTools(surface["connected"], Surface.from_dict(surface["tools"]), given, split)
        else:
            tasks = self.factory(data=data, split=split, **{**self.defaults, **own}, **self.rules)
        if isinstance(tasks, TeamBound):
            dependency = kwargs.get("dependency")
            tasks = tasks.for_team(team, None if dependency is None else as_dependency(dependency))
        if grader is not None:
            tasks = RecordedGrades(tasks, grader)
        if isinstance(reward, Mapping):
            reward = RecordedReward.of(reward)
        return FlexMG(tasks, team, name=self.id, reward=reward, **kwargs)

    def read_team(self, team: Team | Mapping[str, Any] | str) -> Team:
        """Return a team; the name of a preset means the one of this task's language and family."""
        return as_team(team, self.language, self.family)

    @property
    def keywords(self) -> frozenset[str]:
        """All keywords that the user may give."""
        return _OF_ANY_TASK | _OF_THE_GAME | self.own

    def _check_given(self, tasks: Tasks, own: Mapping[str, Any]) -> None:
        """Require a task set that the user made to follow the version's rules, and no keywords beside it."""
        if own:
            raise TypeError(
                f"{self.id}: {', '.join(sorted(own))} with a TaskSet as `data`; give it to the task set itself"
            )
        for key, wanted in self.rules.items():
            if (found := getattr(tasks, key, wanted)) != wanted:
                raise ValueError(
                    f"{self.id}: the TaskSet given as `data` has {key}={found!r}, this version wants {key}={wanted!r}; "
                    "make the task set so, or take another version of the environment"
                )


@dataclass(frozen=True)
class FixedTasks:
    """Factory of task sets that are made already.

    Attributes:
        name: Name of the task.
        by_split: Task set of each split.
    """

    name: str
    by_split: Mapping[str, Tasks]

    def __call__(self, data: Any = "embedded", split: str = "train") -> Tasks:
        """Return the task set of a split.

        Raises:
            ValueError: It has no such split, or other data are asked for.
        """
        if data != "embedded":
            raise ValueError(f"task {self.name!r} was registered with its problems: found data={data!r}, leave it out")
        if split not in self.by_split:
            raise ValueError(
                f"task {self.name!r} has no split {split!r}, it was registered with {', '.join(self.by_split)}: "
                f"register_task({self.name!r}, {{'train': ..., {split!r}: ...}})"
            )
        return self.by_split[split]


def register_task(
    name: str,
    factory: Callable[..., Tasks] | Tasks | Mapping[str, Tasks],
    *,
    teams: Mapping[str, Team | str] | Iterable[str] = PRESETS,
    language: str = "en",
    family: str = "math",
    version: int = 0,
    namespace: str = "marft",
    description: str = "",
    deprecated: str = "",
    keywords: Iterable[str] = (),
    rules: Mapping[str, Any] | None = None,
    solo: Team | str = "solo",
    controls: Mapping[str, str] | None = None,
    of_team: Mapping[str, Mapping[str, Any]] | None = None,
    force: bool = False,
    **kwargs: Any,
) -> list[EnvSpec]:
    """Register a task with several teams: `{namespace}/{name}_{team}-v{version}` for each.

    Args:
        name: Name of the task.
        factory: `factory(data=..., split=...)` returns the task set; `data` is "embedded" unless the user says
            otherwise. Or the task set of the split "train" itself, or task sets by split.
        teams: Names of presets, or own teams (or paths of their files) by name.
        language: Language of the presets.
        family: Family of the presets: "math", "code" or "tools", or the absolute path of a folder with own presets,
            `{team}_{language}.json`.
        version: Version N; raise it with any change that can change learning results.
        namespace: First part of the ids.
        description: Description in one line.
        deprecated: Reason for a newer version; making this one gives a warning with it.
        keywords: Further keywords of the factory, which become keywords of `make`.
        rules: Keywords of the factory that this version decides; `make` does not take them.
        solo: Preset or team of one agent that plays the same tasks; `marft bench` compares teams with it.
        controls: Teams of one agent, among `teams`, that play the same tasks otherwise, by arm of `marft bench`:
            "solo@window", "solo@notes" or "solo@whole".
        of_team: Defaults of the game, and keywords of the factory, of single teams, such as
            `{"solo": {"horizon": 3}}`; they take precedence over those of all teams.
        force: True to replace environments with these ids.
        **kwargs: Defaults of the game, and keywords of the factory, of all teams: horizon, feedback, ...

    Returns:
        The registered specs.

    Raises:
        ValueError: An id is of another form or taken, a team is no preset of this language and family, a control or
            default is of no team, or a keyword is one of the game or of the rules; then nothing is registered.
    """
    if not callable(factory):
        factory = FixedTasks(name, factory if isinstance(factory, Mapping) else {"train": factory})
    # All checks come first, so that a mistake leaves nothing registered.
    own = frozenset(keywords)
    if taken := sorted(own & (_OF_ANY_TASK | _OF_THE_GAME | set(rules or {}))):
        raise ValueError(f"task {name!r}: keywords {taken} belong to every game, or are rules; wanted others")
    named = teams if isinstance(teams, Mapping) else dict.fromkeys(teams)
    chosen = {team: team if given is None else given for team, given in named.items()}
    for team in chosen.values():
        # The name of a preset; teams themselves and paths are read when an environment is made.
        if isinstance(team, str) and team.isidentifier() and not Path(team).exists():
            try:
                check_preset(team, language, family)
            except TeamError as error:
                raise ValueError(f"task {name!r}: teams: {error}") from error
    ids = {team: f"{namespace}/{name}_{team}-v{version}" for team in chosen}
    for id in ids.values():
        check_id(id, force)
    for what, named_teams in (("controls", (controls or {}).values()), ("of_team", of_team or ())):
        if unknown := [team for team in named_teams if team not in ids]:
            raise ValueError(f"task {name!r}: {what}: found no team {unknown[0]!r}, wanted one of {', '.join(ids)}")
    by_arm = {arm: ids[team] for arm, team in (controls or {}).items()}
    specs = []
    for team, playing in chosen.items():
        defaults = {**kwargs, **(of_team or {}).get(team, {})}
        of_tasks = {key: defaults.pop(key) for key in own & defaults.keys()}
        environment = TaskEnvironment(
            ids[team], factory, playing, language, family, own, rules or {}, solo, by_arm, of_tasks
        )
        told = {"description": f"{description or name}; {team}", "deprecated": deprecated}
        specs.append(register(ids[team], environment, kwargs=defaults, task=name, team=team, force=force, **told))
    return specs
