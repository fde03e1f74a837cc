"""The tools of an MCP server, local (stdio) or remote (streamable HTTP), through the official SDK.

    server = McpServer("files", ["npx", "server-files"])        # or McpServer("files", "http://127.0.0.1:8000/mcp")
    tasks = ToolTasks("files", [server], [...])

A server is a world with its own tool names, descriptions and schemas. All calls of a process share one connection,
which the first call opens. Each call carries in its `_meta` the keys `marft/rollout`, unique to the running game, and
`marft/agent`. Use `isolated=True` for a server that keeps state by connection. Each running game then has its own
connection (for stdio: a process). The oldest is closed when there are more than `max_connections`.

Needs the extra: pip install 'marft[mcp]'.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from marft_envs.tasks.tools.tool import Tool, ToolDefinitionError, ToolError
from marft_envs.tasks.tools.world import State, World

_MAX_TOOLS = 1000


class McpServer:
    """A world with the tools of an MCP server.

    Args:
        name: Name of the world.
        target: The address of a streamable HTTP endpoint, or the command that starts a local server.
        env: Environment variables of a local server, beside the few that the SDK passes on.
        timeout_s: Seconds allowed for one request.
        isolated: True for a connection per running game.
        max_connections: Most connections open at the same time, if isolated.
        handbook: Private text by tool name; only the owners of the tool are told it.
    """

    def __init__(
        self,
        name: str,
        target: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        isolated: bool = False,
        max_connections: int = 64,
        handbook: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.target = target if isinstance(target, str) else tuple(target)
        self.env = dict(env or {})
        self.timeout_s = timeout_s
        self.isolated = isolated
        self.max_connections = max_connections
        self.handbook = dict(handbook or {})
        self._tools: dict[str, Tool] = {}
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._stack: ExitStack | None = None
        self._open: OrderedDict[str, tuple[ExitStack, Any]] = OrderedDict()

    def tools(self) -> Mapping[str, Tool]:
        """Return the server's tools, fetched once.

        Raises:
            ImportError: The SDK is missing.
            ToolDefinitionError: A schema that is none, or that refers to another document.
            OSError: The server cannot be reached.
        """
        with self._lock:
            if not self._tools:
                self._tools = {found.name: self._tool(found) for found in self._list()}
            return self._tools

    def __call__(self, state: State, /, *, caller: str, rollout: str) -> World:
        """Open the world on a state for one call."""
        return World(state, caller=caller, rollout=rollout)

    def ask(self, name: str, arguments: Mapping[str, Any], *, caller: str, rollout: str) -> Any:
        """Call a tool on the server.

        Raises:
            ToolError: The tool or the server reports an error, or there is no answer.
        """
        portal, client = self._connect(rollout if self.isolated else "")
        meta = {"marft/rollout": rollout, "marft/agent": caller}
        request = partial(client.call_tool, name, dict(arguments), self.timeout_s, meta=meta)
        try:
            result = portal.call(request)
        except Exception as error:
            raise ToolError(f"the server gives no answer: {str(error)[:200] or type(error).__name__}") from error
        text = "\n".join(getattr(part, "text", f"[{part.type}]") for part in result.content)
        if result.is_error:
            raise ToolError(text)
        return text if result.structured_content is None else result.structured_content

    def close(self) -> None:
        """Close all connections and end the local server; a later call opens new ones."""
        with self._lock:
            while self._open:
                self._open.popitem()[1][0].close()
            if self._stack is not None:
                self._stack.close()
            self._forget()

    def _connect(self, key: str) -> tuple[Any, Any]:
        """Return the event loop's portal and the connection of a rollout."""
        with self._lock:
            if self._stack is None:
                from anyio.from_thread import start_blocking_portal

                self._stack = ExitStack()
                self._portal = self._stack.enter_context(start_blocking_portal())
            portal = self._portal
            if key not in self._open:
                while len(self._open) >= self.max_connections:
                    self._open.popitem(last=False)[1][0].close()
                stack = ExitStack()
                self._open[key] = stack, stack.enter_context(portal.wrap_async_context_manager(self._client()))
            self._open.move_to_end(key)
            return portal, self._open[key][1]

    def _client(self) -> Any:
        try:
            from mcp import Client, StdioServerParameters
        except ImportError as error:
            raise ImportError("tools of MCP servers need the official SDK: pip install 'marft[mcp]'") from error
        if isinstance(self.target, str):
            return Client(self.target, read_timeout_seconds=self.timeout_s)
        started = StdioServerParameters(command=self.target[0], args=list(self.target[1:]), env=self.env)
        return Client(started, read_timeout_seconds=self.timeout_s)

    def _list(self) -> list[Any]:
        portal, client = self._connect("")
        found: list[Any] = []
        cursor = None
        while len(found) < _MAX_TOOLS:
            page = portal.call(partial(client.list_tools, cursor=cursor))
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    def _tool(self, found: Any) -> Tool:
        _check_schema(found.name, found.input_schema)
        description = " ".join((found.description or found.title or found.name).split())
        return Tool(found.name, description, found.input_schema, McpCall(self, found.name), takes_world=True)

    def __getstate__(self) -> dict[str, Any]:
        open_here = {"_lock", "_stack", "_open", "_portal"}
        return {name: value for name, value in self.__dict__.items() if name not in open_here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()


@dataclass(frozen=True)
class McpCall:
    """The function of a tool on a server."""

    server: McpServer
    name: str

    def __call__(self, world: World, **arguments: Any) -> Any:
        """Call the tool on the server."""
        return self.server.ask(self.name, arguments, caller=world.caller, rollout=world.rollout)


def _check_schema(name: str, schema: Any) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolDefinitionError(f"{name}: its schema is no JSON Schema: {error.message[:200]}") from error
