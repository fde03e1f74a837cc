"""Games of records: what the agents of a run were told, and the game that rebuilds its texts from it.

A run keeps the team, the dependency function and the tools with their schemas beside its episodes. With them its
episodes can be rebuilt where the tool servers, the grader, the judge and the functions of its reward are missing, or
are somebody else's: none of them is made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from marft_envs.dependency import DependencyError
from marft_envs.environment_capabilities import AnyAEC, dependency_game
from marft_envs.game.task import JudgingTasks, TeamBound
from marft_envs.graders.graded_tasks import bare_tasks
from marft_envs.registration.order_enforcing import OrderEnforced
from marft_envs.registration.registry import spec
from marft_envs.registration.task_environment import TaskEnvironment
from marft_envs.tasks.tools.connectors.tool_file import ConnectedTasks
from marft_envs.tasks.tools.tasks import TeamTools
from marft_envs.tasks.tools.tool_access import Surface, SurfaceError
from marft_envs.teams.team import Team

SCHEMA = "marft.surface/1"


def surface_of(env: Any) -> dict[str, Any] | None:
    """Return what the agents of an environment are told beside the tasks, as JSON.

    Returns:
        "team" and its effective "dependency" (None for one that is code), "tools" (the tool surface with its hash; None
        without tools), "connected" (limits and tasks of a tool file; None without one), and "answers" (see
        `takes_questions`). None for an environment that is no Flex-MG.
    """
    game = dependency_game(env)
    if game is None:
        return None
    team, dependency = None, None
    with contextlib.suppress(DependencyError):
        team, dependency = game.team.to_dict(), game.dependency.to_dict()
    tasks = bare_tasks(game.tasks)
    tools = None
    if isinstance(tasks, TeamTools):
        tools = {"sha256": tasks.surface.sha256, **tasks.surface.to_dict()}
    connected = tasks.record() if isinstance(tasks, ConnectedTasks) else None
    head = {"schema": SCHEMA, "team": team, "dependency": dependency}
    return {**head, "tools": tools, "connected": connected, "answers": takes_questions(game.tasks)}


def takes_questions(tasks: Any) -> bool:
    """Return True if a question without a reference can be a task of a set: its tasks are problems with an answer."""
    return isinstance(tasks, JudgingTasks) and not isinstance(tasks, TeamBound)


def check_surface_record(record: Any) -> dict[str, Any]:
    """Return a record of `surface_of` after a check.

    Raises:
        ValueError: It has another form, or its tools are not those of its hash.
    """
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        found = record.get("schema") if isinstance(record, dict) else type(record).__name__
        raise SurfaceError(f"found the schema {found!r}, wanted {SCHEMA!r}")
    Team.from_dict({**record.get("team", {}), "dependency": record.get("dependency")})
    if (tools := record.get("tools")) is not None:
        found, wanted = Surface.from_dict(tools).sha256, tools.get("sha256")
        if found != wanted:
            raise SurfaceError(f"its tools have the sha256 {found[:12]}, wanted {wanted!r:.14}: it was changed later")
    return record


def recorded_game(env_id: str, keywords: Mapping[str, Any], surface: Mapping[str, Any]) -> AnyAEC | None:
    """Make the game that rebuilds the texts of recorded episodes.

    It has the tasks of the data, and the team and the tools of the surface. It makes no tool, grader or judge and
    imports no term of the reward. So it only plays recorded outcomes, see `records.replay.rebuild`.

    Args:
        env_id: Id of the environment of the run.
        keywords: Keywords of `make` of the run.
        surface: Record that `surface_of` returned.

    Returns:
        The game; None for an environment that no task set makes, whose parts are not known.

    Raises:
        ValueError, TypeError: The data, the surface or a keyword cannot be used.
    """
    found = spec(env_id)
    if not isinstance(found.entry_point, TaskEnvironment):
        return None
    return OrderEnforced(found.entry_point.of_record(surface, **{**found.kwargs, **keywords}))
