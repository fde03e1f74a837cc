"""Tool files: a world of HTTP endpoints and MCP servers, its tasks, and who owns which tool, as one TOML file.

    name = "hotel"                                # of the world

    [[http]]                                      # any number; see `HttpEntry`
    name = "find_room"
    description = "Find a free room."
    url = "http://127.0.0.1:8080/find_room"
    [http.parameters]                             # JSON Schema of the arguments
    type = "object"
    required = ["beds"]
    properties.beds.type = "integer"
    [http.result]                                 # JSON Schema of the result, if it has one
    type = "string"

    [[mcp]]                                       # any number; see `McpEntry`
    command = ["python", "desk_server.py"]        # or url = "http://127.0.0.1:8000/mcp"

    [owners]                                      # needed for teams whose profiles name other tools
    reader_0 = ["find_room"]
    writer_0 = ["book", "finish"]

    [[task]]                                      # any number; see `TaskEntry`
    id = "one-bed"
    prompt = "Which room with one bed is free? Finish with its number."
    answer = "7"

Servers are asked for their tools, and endpoints for a connection, when the file is read. A mistake and a server that
does not answer are errors there. Results that break the declared schema fail the episode: its back end is at fault, not
the team. Changes in the back ends are not graded, only the answer given with `finish`, or what a `grader` says.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from marft_common.close_names import close_or_all
from marft_common.user_settings import headers_from_environment, read_toml
from marft_envs.dependency.base import Dependency
from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.connectors.http import HttpCall
from marft_envs.tasks.tools.connectors.mcp import McpServer
from marft_envs.tasks.tools.definition import Tool, ToolDefinitionError, check_schema
from marft_envs.tasks.tools.execution import ToolLimits
from marft_envs.tasks.tools.tasks import ToolTask, ToolTasks
from marft_envs.tasks.tools.tool_access import ALL, FINISH, Surface
from marft_envs.tasks.tools.world import Toolbox
from marft_envs.teams.profile import TeamError
from marft_envs.teams.team import Team

PROBE_S = 3.0
_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "a text"),
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "Mapping[str, Any]": (Mapping, "a table"),
    "tuple[str, ...]": ((list, tuple), "a list of texts"),
    "tuple[Any, ...]": ((list, tuple), "a list of tables"),
}
_Entry = TypeVar("_Entry")


class ToolFileError(ValueError):
    """A tool file that cannot be used; says where, what was found and what was wanted."""


@dataclass(frozen=True)
class HttpEntry:
    """A tool behind an HTTP endpoint, `[[http]]`.

    Attributes:
        name: Name of the tool.
        description: Description for the model.
        url: Address; gets a POST with the arguments as JSON for each call.
        parameters: JSON Schema of the arguments, an object.
        result: JSON Schema of the result; empty: any.
        headers: Headers sent with every call.
        headers_env: Headers whose values are in environment variables of these names.
        timeout_s: Seconds of one try.
        retries: Further tries after a failed one.
        max_bytes: Largest answer in bytes; a longer one is an error of the call.
        probe: False to read the file while nothing listens at the address.
        parallel: True if the back end may get several calls of one turn at the same time.
    """

    name: str
    description: str
    url: str
    parameters: Mapping[str, Any]
    result: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    headers_env: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 5.0
    retries: int = 1
    max_bytes: int = 65536
    probe: bool = True
    parallel: bool = False


@dataclass(frozen=True)
class McpEntry:
    """The tools of an MCP server, `[[mcp]]`: either a command or an address.

    Attributes:
        command: Command that starts a local server, with its arguments.
        url: Address of a streamable HTTP endpoint.
        tools: Names of the tools to take; empty: all.
        env: Environment variables of a local server, beside the few that the SDK passes on.
        timeout_s: Seconds of one request, and of the connection.
        isolated: True for a connection per running game.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    tools: tuple[str, ...] = ()
    env: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 10.0
    isolated: bool = False


@dataclass(frozen=True)
class TaskEntry:
    """A task, `[[task]]`.

    Attributes:
        id: Unique in the file.
        prompt: What the team must do.
        answer: What `finish(answer=...)` must say; empty: finishing is enough, and a `grader` says what it is worth.
        split: Split of the task; empty: all.
        calls: Reference calls in order, `{tool = ..., arguments = {...}}`; the scripted team plays them.
    """

    id: str
    prompt: str
    answer: str = ""
    split: str = ""
    calls: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ToolFile:
    """A tool file.

    Attributes:
        name: Name of the world; the name of the file unless it says another.
        http: The entries `[[http]]`.
        mcp: The entries `[[mcp]]`.
        owners: Tools by agent, in place of those in the profiles; "*" is all of them.
        limits: Fields of `ToolLimits`.
        task: The entries `[[task]]`.
        where: Name of the file, for messages.
    """

    name: str
    http: tuple[Any, ...] = ()
    mcp: tuple[Any, ...] = ()
    owners: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    task: tuple[Any, ...] = ()
    where: str = "tools"

    @classmethod
    def read(cls, source: str | os.PathLike[str] | Mapping[str, Any]) -> ToolFile:
        """Read a file, or its content as a mapping.

        Raises:
            ToolFileError: No such file, no TOML, an unknown key (names the close ones), a missing one, a wrong type.
        """
        if isinstance(source, Mapping):
            where, plain = "tools", dict(source)
        else:
            try:
                where, plain = str(source), read_toml(Path(source))
            except ValueError as error:
                raise ToolFileError(f"{error}; wanted a TOML file of tools") from error
            plain = {"name": Path(source).stem, **plain}
        if "where" in plain:
            raise ToolFileError(f"{where}: unknown key 'where'")
        file = replace(_entry(cls, plain, where), where=where)
        parts: dict[str, Any] = {}
        for name, kind in (("http", HttpEntry), ("mcp", McpEntry), ("task", TaskEntry)):
            rows = getattr(file, name)
            parts[name] = tuple(_entry(kind, row, f"{where}: {name}[{place}]") for place, row in enumerate(rows))
        for agent, tools in file.owners.items():
            _require(tools, "tuple[str, ...]", f"{where}: owners.{agent}")
        if not file.http + file.mcp:
            raise ToolFileError(f"{where}: found no tool, wanted [[http]] or [[mcp]]")
        return replace(file, **parts)

    def open(self, entry: HttpEntry) -> Tool:
        """Make the tool of an endpoint.

        Raises:
            ToolFileError: A schema that is none, an environment variable that is not set, or nothing answers.
        """
        where = f"{self.where}: http {entry.name!r}"
        try:
            headers = {**entry.headers, **headers_from_environment(entry.headers_env)}
        except ValueError as error:
            raise ToolFileError(f"{where}: {error}") from error
        try:
            check_schema(entry.parameters, "parameters")
            check_schema(entry.result, "result")
            call = HttpCall(
                entry.url, headers, entry.timeout_s, entry.retries, max_bytes=entry.max_bytes, result=entry.result
            )
            about = entry.name, entry.description, entry.parameters
            tool = Tool(*about, call, takes_world=True, parallel=entry.parallel)
        except (ToolDefinitionError, ValueError) as error:
            raise ToolFileError(f"{where}: {error}") from error
        if entry.probe:
            _probe(entry.url, where)
        return tool

    def world(self) -> Toolbox:
        """Make the world of all tools.

        Raises:
            ToolFileError: See `open`; or a server that does not answer, a tool that it lacks, or two of one name.
            ImportError: The SDK of MCP is missing.
        """
        found = [self.open(entry) for entry in self.http]
        for place, entry in enumerate(self.mcp):
            found += self._served(entry, f"{self.where}: mcp[{place}]")
        names = [tool.name for tool in found]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ToolFileError(f"{self.where}: two tools are called {twice[0]!r}; leave one out (`tools` of [[mcp]])")
        return Toolbox(self.name, dict(zip(names, found, strict=True)))

    def _served(self, entry: McpEntry, where: str) -> list[Tool]:
        if bool(entry.command) == bool(entry.url):
            raise ToolFileError(f"{where}: wanted either command or url, found {'both' if entry.url else 'none'}")
        target: str | Sequence[str] = entry.url or entry.command
        environment = {str(name): str(value) for name, value in entry.env.items()}
        server = McpServer(
            self.name, target, env=environment or None, timeout_s=entry.timeout_s, isolated=entry.isolated
        )
        try:
            there = server.tools()
        except ImportError:
            raise
        except Exception as error:
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            shown = " ".join(f"{type(cause).__name__}: {cause}".split())[:300]
            raise ToolFileError(f"{where} ({_shown(target)}) gives no tools: {shown}") from error
        for name in entry.tools:
            if name not in there:
                raise ToolFileError(f"{where} ({_shown(target)}) has no tool {name!r}{close_or_all(name, there)}")
        return [tool for name, tool in there.items() if not entry.tools or name in entry.tools]

    def tasks(self, split: str) -> list[ToolTask]:
        """Return the tasks of one split.

        Raises:
            ToolFileError: There is none, or a call of a reference has another form.
        """
        chosen = [entry for entry in self.task if entry.split in ("", split)]
        if not chosen:
            splits = ", ".join(sorted({entry.split for entry in self.task})) or "no [[task]]"
            raise ToolFileError(
                f"{self.where}: no task of the split {split!r} (found {splits}); add [[task]], or give data"
            )
        return [
            ToolTask(
                id=entry.id,
                prompt=entry.prompt,
                answer=entry.answer,
                split=split,
                meta={"world": self.name, "calls": len(entry.calls)},
                world=self.name,
                reference=tuple(_call(call, f"{self.where}: task {entry.id!r}") for call in entry.calls),
            )
            for entry in chosen
        ]


class ConnectedTasks(ToolTasks):
    """Tasks in the world of a tool file.

    Args:
        file: Tool file with the world.
        tasks: Tasks in its world; None: those of the file.
        split: Split of the tasks in the file.
        limits: Limits in place of those of the file.
        listing: As in `ToolTasks`.

    Raises:
        ToolFileError: See `ToolFile`.
    """

    slow_step = True

    def __init__(
        self,
        file: ToolFile,
        tasks: Sequence[ToolTask] | None = None,
        *,
        split: str = "train",
        limits: ToolLimits | None = None,
        listing: str = "signature",
    ) -> None:
        self.file = file
        try:
            bounds = limits or ToolLimits(**file.limits)
        except (TypeError, ValueError) as error:
            raise ToolFileError(f"{file.where}: limits: {error}") from error
        world = file.world()
        chosen = file.tasks(split) if tasks is None else tasks
        super().__init__(file.name, [world], chosen, limits=bounds, listing=listing)

    def record(self) -> dict[str, Any]:
        """Return name, limits and tasks of the file as JSON, for `RecordedTools`; no address, command or header."""
        tasks = [asdict(entry) for entry in self.file.task]
        return {"name": self.file.name, "limits": dict(vars(self.limits)), "task": tasks}

    def for_team(self, team: Team, dependency: Dependency | None = None) -> ConnectedTasks:
        """Return the same tasks with the tools of a team, as the file or the profiles assign them.

        Raises:
            TeamError: An agent or a tool that does not exist, or nobody may finish.
        """
        where, agents = self.file.where, team.roster.agents
        owners = self.file.owners
        for agent in owners:
            if agent not in agents:
                raise TeamError(
                    f"{where}: owners: the team {team.name!r} has no agent {agent!r}{close_or_all(agent, agents)}"
                )
        if owners:
            profiles = tuple(replace(one, tools=tuple(owners.get(one.name, ()))) for one in team.profiles)
            team = replace(team, profiles=profiles)
        elif any(set(one.tools) - {*self.worlds[self.file.name].tools(), FINISH.name, ALL} for one in team.profiles):
            raise TeamError(
                f"{where}: the profiles of the team {team.name!r} name tools of other worlds; say in [owners] which of "
                f"{', '.join(agents)} owns which tool, or give a team of your own"
            )
        if not any({ALL, FINISH.name} & set(one.tools) for one in team.profiles):
            raise TeamError(f"{where}: no agent of the team {team.name!r} owns {FINISH.name!r}, so no episode can end")
        return super().for_team(team, dependency)


class RecordedTools(ToolTasks):
    """Tasks in the world of a tool file, as a run recorded them: no server is asked, and no tool can be called.

    Args:
        record: Record that `ConnectedTasks.record` returned.
        surface: Tool surface of the run, with its team.
        tasks: Tasks in its world; None: those of the file.
        split: Split of the tasks in the file.

    Raises:
        ToolFileError: The record has another form, or no task of the split.
    """

    slow_step = True

    def __init__(
        self, record: Mapping[str, Any], surface: Surface, tasks: Sequence[ToolTask] | None = None, split: str = "train"
    ) -> None:
        file = _entry(ToolFile, record, "tools")
        entries = tuple(_entry(TaskEntry, row, f"tools: task[{place}]") for place, row in enumerate(file.task))
        try:
            limits = ToolLimits(**file.limits)
        except (TypeError, ValueError) as error:
            raise ToolFileError(f"tools: limits: {error}") from error
        chosen = replace(file, task=entries).tasks(split) if tasks is None else tasks
        super().__init__(file.name, [Toolbox(file.name, {})], chosen, limits=limits, listing=surface.listing)
        self._surface = surface

    def for_team(self, team: Team, dependency: Dependency | None = None) -> RecordedTools:
        """Return the tasks as they are: their surface is that of the team that played."""
        return self


def _entry(kind: type[_Entry], value: Any, where: str) -> _Entry:
    """Make an entry of a table; keys and types are those of its dataclass."""
    if not isinstance(value, Mapping):
        raise ToolFileError(f"{where}: found {value!r:.60}, wanted a table")
    known: dict[str, Any] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    for key, given in value.items():
        if key not in known:
            raise ToolFileError(f"{where}: unknown key {key!r}{close_or_all(str(key), known)}")
        _require(given, known[key].type, f"{where}: {key}")
    for name, one in known.items():
        if one.default is MISSING and one.default_factory is MISSING and name not in value:
            raise ToolFileError(f"{where}: the key {name!r} is missing")
    return kind(**{key: tuple(given) if isinstance(given, list) else given for key, given in value.items()})


def _require(value: Any, kind: str, where: str) -> None:
    wanted, told = _TYPES[kind]
    fits = isinstance(value, wanted) and isinstance(value, bool) == (kind == "bool")
    if fits and kind == "tuple[str, ...]":
        fits = all(isinstance(item, str) for item in value)
    if not fits:
        raise ToolFileError(f"{where}: found {value!r:.60}, wanted {told}")


def _call(value: Any, where: str) -> Call:
    if not isinstance(value, Mapping) or set(value) - {"tool", "arguments"} or not isinstance(value.get("tool"), str):
        raise ToolFileError(f"{where}: found the call {value!r:.80}, wanted {{tool = ..., arguments = {{...}}}}")
    return Call(value["tool"], dict(value.get("arguments", {})))


def _probe(url: str, where: str) -> None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), PROBE_S).close()
    except OSError as error:
        raise ToolFileError(
            f"{where}: nothing answers at {parts.hostname}:{port} ({error.strerror or error}); start it, or set "
            "probe = false"
        ) from error


def _shown(target: str | Sequence[str]) -> str:
    return target if isinstance(target, str) else " ".join(target)
