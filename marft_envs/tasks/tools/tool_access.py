"""Access of agents to tools: the immutable set of tools that each agent may call, with its hash.

An agent owns the tools its profile names ("*": all of the world, and finish); without names it has no tools. Tools of
other agents are not shown to it. `hand_off` is owned by all agents if the dependency passes control from one to the
next, and else by none. A profile may name it, without effect.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from marft_common.close_names import close_or_all
from marft_envs.dependency.base import Dependency
from marft_envs.tasks.tools.definition import Tool, ToolError
from marft_envs.tasks.tools.turn_taking import HAND_OFF, Handoff, hand_off_tool
from marft_envs.tasks.tools.world import WorldKind
from marft_envs.teams.profile import TeamError
from marft_envs.teams.team import Team

ALL = "*"
LISTINGS = ("schema", "signature", "names")
_HOW = {
    "schema": 'To call a tool, write <tool_call>{"name": ..., "arguments": {...}}</tool_call>; several may follow.',
    "signature": "To call a tool, write name(argument=value); several calls may follow, one a line.",
}


def finish(answer: str = "") -> None:
    """End the episode: the task is done, or cannot be done.

    Args:
        answer: What the task asks for, in as few words as possible; empty where it asks for nothing.
    """


FINISH = Tool.of(finish)
BUILT_IN = (FINISH.name, HAND_OFF)


class SurfaceError(ValueError):
    """The tool surface differs from the one of the training."""


@dataclass(frozen=True)
class Surface:
    """Tools by world, agent and name.

    Attributes:
        owned: Tools by world, agent and name.
        listing: Format in which agents are told of them: "schema" (JSON Schema, a line each), "signature" (shorter) or
            "names" (for very small models, which copy text that looks like a call: worked examples must show the
            arguments).
    """

    owned: Mapping[str, Mapping[str, Mapping[str, Tool]]]
    listing: str = "schema"

    @classmethod
    def of(
        cls,
        worlds: Sequence[WorldKind],
        team: Team,
        dependency: Dependency | None = None,
        listing: str = "schema",
        *,
        finish: bool = True,
    ) -> Surface:
        """Assign the tools to the agents of a team.

        Args:
            worlds: All worlds of a set of tasks. A profile may name tools of several; in each world an agent has
                those that exist there.
            team: Team with profiles that name the tools.
            dependency: Dependency function of the game; None is the team's own.
            listing: As in the attributes of the class.
            finish: True if agents may end the episode.

        Raises:
            TeamError: A profile names a tool that no world has, no agent has any tool, or none has `finish`.
            ValueError: Another word for `listing`.
        """
        if listing not in LISTINGS:
            raise ValueError(f"listing: found {listing!r}, wanted one of {', '.join(LISTINGS)}")
        agents = team.roster.agents
        known = {name for world in worlds for name in world.tools()} | {*BUILT_IN, ALL}
        for profile in team.profiles:
            for name in profile.tools:
                _require(name, known, f"team {team.name!r}: {profile.name}.tools")
        if not any(profile.tools for profile in team.profiles):
            raise TeamError(f"team {team.name!r}: no agent has tools; name them in its profiles (`tools`)")
        if finish and not any({ALL, FINISH.name} & set(profile.tools) for profile in team.profiles):
            raise TeamError(
                f"team {team.name!r}: no agent can end an episode; name {FINISH.name!r} (or {ALL!r}, all tools) in the "
                "`tools` of the profile that does"
            )
        passes = isinstance(team.dependency if dependency is None else dependency, Handoff) and len(agents) > 1
        owned: dict[str, dict[str, dict[str, Tool]]] = {}
        for world in worlds:
            there = dict(world.tools())
            if finish:
                there[FINISH.name] = FINISH
            owned[world.name] = by_agent = {}
            for profile in team.profiles:
                names = list(there) if ALL in profile.tools else profile.tools
                by_agent[profile.name] = {name: there[name] for name in names if name in there}
                if passes:
                    by_agent[profile.name][HAND_OFF] = hand_off_tool(profile.name, agents)
        return cls(owned, listing)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: the descriptions of the tools of each agent, by world and agent."""
        owned: dict[str, dict[str, Any]] = {}
        for world, agents in self.owned.items():
            owned[world] = {agent: [tool.to_dict() for tool in tools.values()] for agent, tools in agents.items()}
        return {"listing": self.listing, "owned": owned}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Surface:
        """Read the JSON form; the tools are described, and cannot be called.

        Raises:
            SurfaceError: It has another form.
        """
        try:
            owned = {
                world: {agent: {tool["name"]: _described(tool) for tool in tools} for agent, tools in agents.items()}
                for world, agents in plain["owned"].items()
            }
            if plain["listing"] not in LISTINGS:
                raise ValueError(f"listing: found {plain['listing']!r}, wanted one of {', '.join(LISTINGS)}")
            return cls(owned, plain["listing"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SurfaceError(f"this is no tool surface: {type(error).__name__}: {error}") from error

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the JSON form: names, descriptions and schemas, by agent."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def opening(self, world: str, agent: str) -> str:
        """Return the description of an agent's tools; empty if it has none."""
        tools = self.owned[world][agent]
        if not tools:
            return ""
        if self.listing == "names":
            return f"Your tools: {', '.join(tools)}"
        told = (
            json.dumps(tool.to_dict(), ensure_ascii=False)
            if self.listing == "schema"
            else f"{tool.signature}: {tool.description}"
            for tool in tools.values()
        )
        return "\n".join(["Your tools:", *told, _HOW[self.listing]])


def check_surface(trained: str | None, now: str | None, *, allow: bool = False) -> None:
    """Refuse to evaluate on another tool surface than the one of the training.

    Args:
        trained: Hash in the checkpoint (`settings["tool_surface"]`); None for a task without tools.
        now: Hash of the environment.
        allow: True to accept another surface.

    Raises:
        SurfaceError: They differ.
    """
    if trained != now and not allow:
        raise SurfaceError(
            f"the checkpoint was trained with the tool surface {_short(trained)}, this environment has {_short(now)}: "
            "names, descriptions, schemas or owners of tools differ. Use the same team and worlds, or allow another "
            "surface on purpose"
        )


def _described(plain: Mapping[str, Any]) -> Tool:
    if not isinstance(plain["name"], str) or not isinstance(plain["description"], str):
        raise TypeError(f"found the tool {plain!r:.60}, wanted texts as name and description")
    return Tool(plain["name"], plain["description"], dict(plain["parameters"]), _not_callable)


def _not_callable(**_: Any) -> None:
    raise ToolError("this tool is of a record, and cannot be called")


def _short(digest: str | None) -> str:
    return "none" if digest is None else f"{digest[:12]}..."


def _require(name: str, known: set[str], where: str) -> None:
    if name not in known:
        raise TeamError(f"{where}: no world has a tool {name!r}{close_or_all(name, sorted(known))}")
