"""AgentDojo's own suites, tools, attacks and checks, without its clients of language models.

Tools are functions of pydantic models: none opens a file, a socket or a process, and none evaluates code. Two things
in them differ from run to run. They ask the clock for the time of a new mail or file, and they list the participants of
a new meeting in the order of a set. Here the time is noon of the world's own day, and participants are sorted.

The package lays injections into the text of a world and parses it, which takes 0.11 s in `workspace`. Here the text is
parsed once, and then only the strings with injections in them. Worlds that were made are kept, pickled.
"""

from __future__ import annotations

import copy
import datetime
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

import yaml

from marft_envs.plugins.agentdojo.package import PACKAGE
from marft_envs.tasks.tools import Call, Tool, schema_of_pydantic

BENCHMARK = "v1.2.2"
"""Version of the tasks within the package; its newest."""


@contextmanager
def _without_clients() -> Iterator[None]:
    """Let submodules of `agentdojo.agent_pipeline` be imported without the package itself.

    It imports the clients of four providers of models, 90 MB. Tools and checks need none of them, but one constant from
    the client of Google. The stand-ins are gone afterwards: where the clients are installed, they can be imported.
    """
    pipeline, clients = "agentdojo.agent_pipeline", "agentdojo.agent_pipeline.llms"
    stand_ins = {name: ModuleType(name) for name in (pipeline, clients, f"{clients}.google_llm")}
    stand_ins[pipeline].__path__ = [str(PACKAGE.folder / "agent_pipeline")]
    stand_ins[clients].__path__ = []
    vars(stand_ins[f"{clients}.google_llm"])["EMPTY_FUNCTION_NAME"] = "<empty-function-name>"
    absent = {name: module for name, module in stand_ins.items() if pipeline not in sys.modules}
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


with _without_clients():
    from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
    from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
    from agentdojo.attacks import FixedJailbreakAttack
    from agentdojo.attacks.attack_registry import ATTACKS
    from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
    from agentdojo.task_suite.load_suites import get_suite
    from agentdojo.task_suite.task_suite import read_suite_file
    from agentdojo.types import text_content_block_from_string

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Victim(GroundTruthPipeline):  # type: ignore[misc]  # agentdojo has no types
    """The model that attacks speak to; they call it "Local model", as the package calls all that it has no name of."""

    name = "local"


class Suite:
    """One suite: worlds, tools, user tasks, injection tasks.

    Args:
        name: "workspace", "travel", "banking" or "slack".

    Attributes:
        user_tasks: The package's user tasks by id.
        injection_tasks: Its injection tasks by id.
        tools: Tools by name.
        system_message: What the package tells the assistant of its user.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._suite = copy.copy(get_suite(BENCHMARK, name))
        self._suite.load_and_inject_default_environment = self.world  # attacks look for the places that tasks read
        self.user_tasks = _by_number(self._suite.user_tasks)
        self.injection_tasks = _by_number(self._suite.injection_tasks)
        self.tools = {
            function.name: Tool(
                function.name, function.description, schema_of_pydantic(function.parameters.model_json_schema()), dict
            )
            for function in self._suite.tools
        }
        messages = yaml.safe_load((PACKAGE.folder / "data" / "system_messages.yaml").read_text(encoding="utf-8"))
        self.system_message = str(messages["default"]).strip()
        self._runtime = FunctionsRuntime(self._suite.tools)
        self._defaults: dict[str, str] = self._suite.get_injection_vector_defaults()
        text = read_suite_file(name, "environment.yaml", None)
        self._data = yaml.load(text, _LOADER)
        self._sources = {
            node.value: text[node.start_mark.index : node.end_mark.index]
            for node in _strings(yaml.compose(text, _LOADER))
            if "{" in node.value or "}" in node.value
        }

    def world(self, injections: Mapping[str, str]) -> Any:
        """Return a new world, the package's environment, with texts in place of the defaults of some injections."""
        return pickle.loads(self._pickled(frozenset(injections.items())))  # 0.5 ms, where a deep copy takes 1.3 ms

    @lru_cache(maxsize=256)  # noqa: B019 - suites are never dropped
    def _pickled(self, injections: frozenset[tuple[str, str]]) -> bytes:
        texts = self._defaults | dict(injections)
        laid = {value: yaml.load(source.format(**texts), _LOADER) for value, source in self._sources.items()}
        return pickle.dumps(self._suite.environment_type.model_validate(_replaced(self._data, laid)))

    @lru_cache(maxsize=4096)  # noqa: B019
    def injections(self, user_task: str, injection_task: str, attack: str) -> Mapping[str, str]:
        """Return the texts that an attack lays into the data that a user task reads, by their places.

        Args:
            user_task: Id of the user task.
            injection_task: Id of the task whose goal they demand.
            attack: Name of one of `attacks()`, or a template.
        """
        made: Mapping[str, str] = self._attack(attack).attack(
            self.user_tasks[user_task], self.injection_tasks[injection_task]
        )
        return made if attack in ATTACKS else {place: _escaped(text) for place, text in made.items()}

    @lru_cache(maxsize=64)  # noqa: B019
    def _attack(self, attack: str) -> Any:
        if attack in ATTACKS:
            return ATTACKS[attack](self._suite, _Victim(None))
        return FixedJailbreakAttack(attack, self._suite, _Victim(None))

    def run(self, world: Any, call: Call) -> tuple[str, bool]:
        """Run a call in a world; return the result as the package writes it, and whether it is an error."""
        before = datetime.datetime.now()
        made, error = self._runtime.run_function(world, call.name, copy.deepcopy(dict(call.arguments)))
        if error is None and call.name == "create_calendar_event":
            made.participants.sort()
        _set_clock(world, before)
        return (tool_result_to_str(made), False) if error is None else (str(error), True)

    def reference(self, task: Any, world: Any) -> list[Call]:
        """Return the calls that solve a user task, or an injection task, in a world at its start."""
        return [Call(call.function, dict(call.args)) for call in task.ground_truth(world)]

    def holds(self, task: Any, answer: str, before: Any, after: Any, made: Sequence[Call]) -> bool:
        """Apply the package's check of a task.

        Args:
            task: A user task, or an injection task.
            answer: Answer to the user.
            before: The world at its start. A check may mark its mails as read.
            after: The world at the end.
            made: All calls that were run.
        """
        traces = [FunctionCall(function=call.name, args=dict(call.arguments)) for call in made]
        said = [text_content_block_from_string(answer)]
        return bool(self._suite._check_task_result(task, said, before, after, traces))


@lru_cache(maxsize=4)
def suite_of(name: str) -> Suite:
    """Return a suite; it is read once."""
    return Suite(name)


def attacks() -> list[str]:
    """Return the names of the package's attacks that put the attacker's goal into a fixed text."""
    return sorted(name for name, kind in ATTACKS.items() if issubclass(kind, FixedJailbreakAttack))


def _by_number(tasks: Mapping[str, Any]) -> dict[str, Any]:
    """Return tasks in the order of their numbers; the package has those last that it changed last."""
    return {id: tasks[id] for id in sorted(tasks, key=lambda id: int(id.rpartition("_")[2]))}


def _strings(node: Any) -> Iterator[Any]:
    """Yield the nodes of all strings below a node."""
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for entry in node.value:
            yield from _strings(entry)
    else:
        for pair in node.value:
            for entry in pair:
                yield from _strings(entry)


def _replaced(data: Any, laid: Mapping[str, str]) -> Any:
    if isinstance(data, str):
        return laid.get(data, data)
    if isinstance(data, list):
        return [_replaced(entry, laid) for entry in data]
    if isinstance(data, dict):
        return {_replaced(key, laid): _replaced(entry, laid) for key, entry in data.items()}
    return data


def _escaped(text: str) -> str:
    """Return a text as it stands within a quoted string of YAML, into which the package lays it."""
    return str(yaml.safe_dump(text, default_style='"', width=sys.maxsize)).strip()[1:-1]


def _set_clock(world: Any, since: datetime.datetime) -> None:
    """Set all times from `since` on to noon of the world's own day."""
    if not hasattr(world, "calendar"):
        return
    noon = datetime.datetime.combine(world.calendar.current_day, datetime.time(12))
    for mail in world.inbox.emails.values():
        if mail.timestamp >= since:
            mail.timestamp = noon
    for file in world.cloud_drive.files.values() if hasattr(world, "cloud_drive") else ():
        if file.last_modified >= since:
            file.last_modified = noon
