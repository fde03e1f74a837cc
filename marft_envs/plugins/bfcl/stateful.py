"""The stateful classes of BFCL's multi-turn categories, called from the installed package.

A state is the list of the calls that led to it. Every call replays that list on new instances, so the state is plain
data and nothing is shared. None of the classes touches the host.
"""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from marft_envs.plugins.bfcl.files import function_docs, read
from marft_envs.plugins.bfcl.single_turn import tool_of
from marft_envs.tasks.tools import Tool, World, read_python_calls

_PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_STATELESS = frozenset({"MathAPI"})

Made = tuple[str, Mapping[str, Any]]
Instances = Mapping[str, Any]


@dataclass(frozen=True)
class MethodCall:
    """The function of a tool that is a method of one of the classes."""

    name: str

    def __call__(self, world: World, **arguments: Any) -> Any:
        """Rebuild the state, call the method, and append the call to the state."""
        made = [(name, given) for name, given in world.state["made"]]
        instances = replayed(world.state["category"], world.state["place"], made)
        result = call_method(instances, self.name, arguments)
        world.state["made"].append([self.name, arguments])
        return plain(result)


def replayed(category: str, place: int, made: Sequence[Made]) -> Instances:
    """Make the instances of an entry and replay calls on them."""
    row = read(category)[place].row
    instances: dict[str, Any] = {}
    for owner in row["involved_classes"]:
        instances[owner] = getattr(importlib.import_module(f"{_PACKAGE}.{_MODULES[owner]}"), owner)()
        if owner not in _STATELESS:
            scenario = copy.deepcopy(row["initial_config"].get(owner, {}))
            instances[owner]._load_scenario(scenario, long_context=False)
    for name, arguments in made:
        call_method(instances, name, copy.deepcopy(dict(arguments)))
    return instances


def call_method(instances: Instances, name: str, arguments: Mapping[str, Any]) -> Any:
    """Call a method on the instance that has it."""
    owner = next(instance for instance in instances.values() if hasattr(instance, name))
    return getattr(owner, name)(**arguments)


def differences(now: Instances, wanted: Instances) -> list[str]:
    """Return the names of the attributes that differ, without private ones."""
    return [
        f"{owner}.{name}"
        for owner, instance in wanted.items()
        for name, value in vars(instance).items()
        if not name.startswith("_") and getattr(now[owner], name) != value
    ]


@lru_cache(maxsize=512)
def methods(category: str, place: int) -> Mapping[str, Tool]:
    """Return the tools of an entry: the public methods of its classes, without those that it excludes."""
    row = read(category)[place].row
    found: dict[str, Tool] = {}
    for owner in row["involved_classes"]:
        for described in _described(owner):
            if described.name not in row.get("excluded_function", ()):
                found[described.name] = described
    return found


@lru_cache(maxsize=512)
def reference(category: str, place: int) -> tuple[tuple[Made, ...], ...]:
    """Return the calls that solve an entry, by turn."""
    entry = read(category)[place]
    owned = {tool.name: tool for owner in entry.row["involved_classes"] for tool in _described(owner)}
    turns: list[tuple[Made, ...]] = []
    for texts in entry.truth:
        calls = [call for text in texts for call in read_python_calls(text)]
        made = [(call.name, named_arguments(owned[call.name], call.arguments, call.positional)) for call in calls]
        turns.append(tuple(made))
    return tuple(turns)


def named_arguments(tool: Tool, named: Mapping[str, Any], positional: Sequence[Any]) -> dict[str, Any]:
    """Name the positional arguments. The types are not checked: the methods check them themselves."""
    names = tool.parameters.get("properties", {})
    return {**dict(zip(names, positional, strict=False)), **named}


def plain(result: Any) -> Any:
    """Return a result, or its text if it is not plain data (a number of mpmath)."""
    try:
        json.dumps(result)
    except (TypeError, ValueError):
        return str(result)
    return result


def shown(result: Any) -> str:
    """Return a result in the form shown to the team."""
    return json.dumps(plain(result), ensure_ascii=False)


@lru_cache(maxsize=16)
def _described(owner: str) -> tuple[Tool, ...]:
    bare = [tool_of(function) for function in function_docs(f"{_MODULES[owner]}.json")]
    return tuple(
        Tool(tool.name, tool.description, tool.parameters, MethodCall(tool.name), takes_world=True) for tool in bare
    )
