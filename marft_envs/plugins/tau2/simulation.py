"""tau2's own environments and evaluators, without its command line and its language models.

A reset of tau2 reads its database again (airline: 7 MB, 350 ms). Here a world shares the database as it was read, and
copies a record when a tool first asks for it by its key. Tools that go through a whole table only read it.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from loguru import logger

from marft_envs.plugins.tau2.files import checked_folder
from marft_envs.tasks.tools import Call, Tool, schema_of_pydantic

logger.disable("tau2")  # it logs to stderr: at its import already, and each refused call
_before = os.environ.get("PYTHON_DOTENV_DISABLED")
os.environ["PYTHON_DOTENV_DISABLED"] = "1"  # its import would read a .env above the installed packages
try:
    from tau2.data_model.message import AssistantMessage, ToolCall, ToolMessage, UserMessage
    from tau2.data_model.tasks import RewardType, Task
    from tau2.domains.airline.data_model import FlightDB
    from tau2.domains.airline.tools import AirlineTools
    from tau2.domains.retail.data_model import RetailDB
    from tau2.domains.retail.tools import RetailTools
    from tau2.domains.telecom.data_model import TelecomDB
    from tau2.domains.telecom.environment import TelecomEnvironment
    from tau2.domains.telecom.tools import TelecomTools
    from tau2.domains.telecom.user_data_model import TelecomUserDB
    from tau2.domains.telecom.user_tools import TelecomUserTools
    from tau2.environment.environment import Environment
    from tau2.evaluator.evaluator_action import ActionEvaluator
    from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator
finally:
    if _before is None:
        del os.environ["PYTHON_DOTENV_DISABLED"]
    else:
        os.environ["PYTHON_DOTENV_DISABLED"] = _before

USER, ASSISTANT = "user", "assistant"
STOP = "###STOP###"
USER_STOPS = (STOP, "###TRANSFER###", "###OUT-OF-SCOPE###")
_POWER_OR_CALL = re.compile(r"\*\s*\*|[\d.)]\s*\(")


def side_of(agent: str) -> str:
    """Return the side of an agent: agents called `user_0`, `user_1`, ... play the customer."""
    return USER if agent.rpartition("_")[0] == USER else ASSISTANT


class Reply(NamedTuple):
    """A call that tau2 has run: side of the tool, the call, what it returned, and whether that is an error."""

    side: str
    call: Call
    content: str
    error: bool


class Said(NamedTuple):
    """A message, or calls with their replies, of one side."""

    side: str
    text: str = ""
    replies: tuple[Reply, ...] = ()


class Records(dict[str, Any]):
    """Table of a database that shares its records with the original until one is asked for by its key.

    Args:
        original: The table as it was read; it is not changed.
    """

    def __init__(self, original: Mapping[str, Any]) -> None:
        super().__init__(original)
        self.original = original
        self.own: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        record = super().__getitem__(key)
        if key not in self.own:
            record = copy.deepcopy(record)
            self[key] = record
        return record

    def __setitem__(self, key: str, record: Any) -> None:
        super().__setitem__(key, record)
        self.own.add(key)

    def changed(self) -> dict[str, str]:
        """Return the records that differ from the original, as JSON."""
        now = {key: self[key].model_dump_json() for key in sorted(self.own)}
        return {
            key: text
            for key, text in now.items()
            if key not in self.original or self.original[key].model_dump_json() != text
        }


class _RecordsEnvironment(Environment):  # type: ignore[misc]  # tau2 has no types
    """tau2's environment with tables of `Records`; its hash covers what differs from the original."""

    def get_db_hash(self) -> str:
        tables = {name: table.changed() for name, table in self.tools.db if isinstance(table, Records)}
        return json.dumps(tables, sort_keys=True)


class _TelecomTools(TelecomTools):  # type: ignore[misc]
    """tau2's tools; a new bill gets the next free number in place of a random one."""

    def _apply_one_time_charge(self, customer_id: str, amount: float, description: str) -> None:
        known = {bill.bill_id for bill in self.db.bills}
        super()._apply_one_time_charge(customer_id, amount, description)
        for bill in self.db.bills:
            if bill.bill_id not in known:
                number = next(n for n in range(len(known) + 1, 2 * len(known) + 2) if f"B{n:08d}" not in known)
                ids = self.get_customer_by_id(customer_id).bill_ids
                ids[ids.index(bill.bill_id)] = bill.bill_id = f"B{number:08d}"


def world_of(domain: str) -> Any:
    """Return tau2's environment of a domain with a database of its own."""
    if domain == "telecom":
        db, user_db = (original.model_copy(deep=True) for original in _databases(domain))
        return TelecomEnvironment(domain, "", _TelecomTools(db), TelecomUserTools(user_db))
    (original,) = _databases(domain)
    tables = {name: Records(table) for name, table in original if isinstance(table, dict)}
    tools = RetailTools if domain == "retail" else AirlineTools
    return _RecordsEnvironment(domain, "", tools(original.model_copy(update=tables)))


@lru_cache(maxsize=4)
def _databases(domain: str) -> tuple[Any, ...]:
    place = checked_folder(domain) / "domains" / domain
    if domain == "telecom":
        return TelecomDB.load(str(place / "db.toml")), TelecomUserDB.load(str(place / "user_db.toml"))
    return ((RetailDB if domain == "retail" else FlightDB).load(str(place / "db.json")),)


def task_of(row: Mapping[str, Any]) -> Any:
    """Return tau2's task of a row of its file."""
    return Task.model_validate(row)


def begun(domain: str, task: Any) -> Any:
    """Return the world of a task at its start."""
    world, state = world_of(domain), task.initial_state
    if state is not None:
        world.set_state(state.initialization_data, state.initialization_actions, state.message_history or [])
    return world


# ----------------------------------------------------------------------- tools


@lru_cache(maxsize=4)
def tools_of(domain: str) -> Mapping[str, tuple[str, Tool]]:
    """Return the side and the description of every tool of a domain by name, those of the assistant first."""
    world = world_of(domain)
    kits = {ASSISTANT: world.tools, USER: world.user_tools}
    found: dict[str, tuple[str, Tool]] = {}
    for side, kit in kits.items():
        for name, tool in ({} if kit is None else kit.get_tools()).items():
            told = tool.openai_schema["function"]
            parameters = schema_of_pydantic(told["parameters"])
            found[name] = side, Tool(name, told["description"], parameters, dict)  # called by `run` alone
    return found


def refusal(call: Call) -> str:
    """Return the reason not to give a call to tau2; empty if there is none."""
    if call.name == "calculate" and _POWER_OR_CALL.search(call.arguments["expression"]):
        return "powers and calls cannot be calculated"  # tau2 would evaluate 9**9**9, which takes for ever
    return ""


def run(world: Any, side: str, call: Call) -> Reply:
    """Let tau2 run a call in a world. A failed call may have changed it, as in tau2."""
    reply = world.get_response(ToolCall(name=call.name, arguments=copy.deepcopy(dict(call.arguments)), requestor=side))
    return Reply(side, call, reply.content or "", reply.error)


# --------------------------------------------------------------------- grading


class Grade(NamedTuple):
    """Result of tau2's evaluators.

    Attributes:
        reward: Product of the checks in the reward basis of the task, 0.0 or 1.0.
        failed: Names of the checks of the basis that failed.
    """

    reward: float
    failed: tuple[str, ...]


def grade(domain: str, task: Any, said: Sequence[Said]) -> Grade:
    """Evaluate a finished conversation with tau2's evaluators, combined as `tau2.evaluator.evaluator` does."""
    criteria = task.evaluation_criteria
    if criteria is None:
        return Grade(1.0, ())
    messages = _messages(said)
    results = [
        EnvironmentEvaluator.calculate_reward(lambda **_: world_of(domain), task, messages),
        ActionEvaluator.calculate_reward(task, messages),
        CommunicateEvaluator.calculate_reward(task, messages),
    ]
    checks: dict[Any, float] = {RewardType.DB: 1.0, RewardType.ENV_ASSERTION: 1.0}  # without actions nothing is checked
    for result in results:
        checks |= result.reward_breakdown or {}
    failed = tuple(kind.value for kind in criteria.reward_basis if checks[kind] < 1.0)
    return Grade(float(not failed), failed)


def reference_of(task: Any) -> list[Call]:
    """Return the calls of the reference solution."""
    return [Call(action.name, action.arguments) for action in _actions(task)]


def facts_of(task: Any) -> list[str]:
    """Return the facts that the assistant must tell the customer."""
    return [] if task.evaluation_criteria is None else list(task.evaluation_criteria.communicate_info or [])


def matching(task: Any, call: Call) -> set[int]:
    """Return the places of the reference actions that a call makes, as tau2 compares them."""
    made = ToolCall(name=call.name, arguments=dict(call.arguments))
    return {place for place, action in enumerate(_actions(task)) if action.compare_with_tool_call(made)}


def _actions(task: Any) -> list[Any]:
    return [] if task.evaluation_criteria is None else task.evaluation_criteria.actions or []


def _messages(said: Sequence[Said]) -> list[Any]:
    """Return a conversation as tau2's messages."""
    messages: list[Any] = []
    for entry in said:
        kind: Any = UserMessage if entry.side == USER else AssistantMessage
        if not entry.replies:
            messages.append(kind(role=entry.side, content=entry.text))
            continue
        calls: list[Any] = []
        results: list[Any] = []
        for reply in entry.replies:
            id = f"call_{len(messages)}_{len(calls)}"
            arguments = copy.deepcopy(dict(reply.call.arguments))
            calls.append(ToolCall(id=id, name=reply.call.name, arguments=arguments, requestor=reply.side))
            results.append(
                ToolMessage(id=id, role="tool", content=reply.content, requestor=reply.side, error=reply.error)
            )
        messages += [kind(role=entry.side, tool_calls=calls), *results]
    return messages
