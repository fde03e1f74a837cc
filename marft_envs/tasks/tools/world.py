"""Worlds: plain data, and the tools that read and change it.

    class Shop(World):
        name = "shop"

        @tool
        def cancel_order(self, order_id: str) -> str:
            \"\"\"Cancel an order that is not shipped yet.\"\"\"
            order = self.find("orders", order_id)
            if order["status"] != "open":
                raise ToolError(f"{order_id} is {order['status']}; only open orders can be cancelled")
            order["status"] = "cancelled"
            return "cancelled"

A world lives for one call: it gets its own copy of the state, which is kept only if the call succeeds.
Between calls the state is JSON text: only str keys, lists, str, int, float, bool and None come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from marft_envs.tasks.tools.definition import Tool, ToolError, tools_of

State = dict[str, Any]


class World:
    """A state and its tools; derive from it and mark methods with `@tool`.

    Attributes:
        name: Short name, unique in a set of tasks.
        state: The database; tools change it in place.
        caller: Name of the calling agent.
        rollout: Id unique to the running game, for back ends outside. Nothing that agents see may depend on it.
        handbook: Private text by tool name; only agents that own the tool are told it.
    """

    name: ClassVar[str] = "world"
    handbook: ClassVar[Mapping[str, str]] = {}

    def __init__(self, state: State, *, caller: str = "", rollout: str = "") -> None:
        self.state = state
        self.caller = caller
        self.rollout = rollout

    @classmethod
    def tools(cls) -> Mapping[str, Tool]:
        """Return all tools by name, in order of definition."""
        return tools_of(cls)

    def find(self, table: str, key: str) -> Any:
        """Return a record of a table of the state.

        Raises:
            ToolError: There is none; the message names the table and the key.
        """
        records = self.state[table]
        if key not in records:
            raise ToolError(f"{table} has no {key!r}")
        return records[key]


class WorldKind(Protocol):
    """Factory of worlds, one per call: a class derived from `World`, or a connector to a server."""

    @property
    def name(self) -> str:
        """Name that is unique in a set of tasks."""

    @property
    def handbook(self) -> Mapping[str, str]:
        """Private text by tool name; only the owners of the tool are told it."""

    def tools(self) -> Mapping[str, Tool]:
        """Return all tools by name."""

    def __call__(self, state: State, /, *, caller: str, rollout: str) -> World:
        """Open the world on a state for one call."""


@dataclass(frozen=True)
class Toolbox:
    """A world of tools that are not methods of a class: plain functions, or connectors to servers.

    Attributes:
        name: Name that is unique in a set of tasks.
        held: The tools, by name.
        handbook: Private text by tool name; only the owners of the tool are told it.
    """

    name: str
    held: Mapping[str, Tool]
    handbook: Mapping[str, str] = field(default_factory=dict)

    def tools(self) -> Mapping[str, Tool]:
        """Return all tools by name."""
        return self.held

    def __call__(self, state: State, /, *, caller: str, rollout: str) -> World:
        """Open the world on a state for one call."""
        return World(state, caller=caller, rollout=rollout)
