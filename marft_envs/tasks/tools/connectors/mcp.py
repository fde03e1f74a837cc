"""The tools of an MCP server, local (stdio) or remote (streamable HTTP), through the official SDK.

    server = McpServer("files", ["npx", "server-files"])        # or McpServer("files", "http://127.0.0.1:8000/mcp")
    tasks = ToolTasks("files", [server], [...])

A server is a world with its own tool names, descriptions and schemas. Tools that it marks as read-only may run beside
each other in a turn. All calls of a process share one connection to a
target, which the first call opens; it is opened again after the server closed it. Each call carries in its `_meta` the
keys `marft/rollout`, unique to the running game, and `marft/agent`. Use `isolated=True` for a server that keeps state
by connection. Each running game then has its own connection (for stdio: a process). The oldest is closed when there
are more than `max_connections`.

Needs the extra: pip install 'marft[mcp]'.
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from marft_common.installation import pip_install
from marft_envs.tasks.tools.definition import BrokenSchemaError, Tool, ToolError, check_schema
from marft_envs.tasks.tools.world import State, World

_MAX_TOOLS = 1000
_BROKEN = "structured content"
_CLOSED = ("ClosedResourceError", "BrokenResourceError", "EndOfStream")


class McpServer:
    """A world with the tools of an MCP server.

    Args:
        name: Name of the world.
        target: The address of a streamable HTTP endpoint, or the command that starts a local server.
        env: Environment variables of a local server, beside the few that the SDK passes on.
        timeout_s: Seconds allowed for one request, all its messages and pages included; a connection may take twice as
            long.
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

    def tools(self) -> Mapping[str, Tool]:
        """Return the server's tools, fetched once.

        Raises:
            ImportError: The SDK is missing.
            ToolDefinitionError: A schema that is none, or that refers to another document.
            OSError: The server cannot be reached.
        """
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
            BrokenSchemaError: The result does not have the schema that the server declares for it.
        """
        key = rollout if self.isolated else ""
        portal, client = self._connect(key)
        meta = {"marft/rollout": rollout, "marft/agent": caller}
        request = partial(client.call_tool, name, dict(arguments), self.timeout_s, meta=meta)
        try:
            result = portal.call(_in_time, request, self.timeout_s)
        except Exception as error:
            if isinstance(error, RuntimeError) and _BROKEN in str(error):  # so the SDK reports it
                raise BrokenSchemaError(f"tool {name!r} of {self.name}: {str(error)[:300]}") from error
            if type(error).__name__ in _CLOSED or "Connection closed" in str(error):
                self._pool.close(key)
            raise ToolError(f"the server gives no answer: {str(error)[:200] or type(error).__name__}") from error
        text = "\n".join(map(_text_of, result.content))
        if result.is_error:
            raise ToolError(text)
        return text if result.structured_content is None else result.structured_content

    def close(self) -> None:
        """Close all connections to the target and end the local server; a later call opens new ones."""
        self._pool.close()

    @property
    def _pool(self) -> _Connections:
        """The connections of this process to the target."""
        environment = tuple(sorted(self.env.items()))
        return _connections(os.getpid(), (self.target, environment, self.isolated))

    def _connect(self, key: str) -> tuple[Any, Any]:
        """Return the event loop's portal and the connection of a rollout."""
        portal = _portal(os.getpid())

        def connect() -> Any:
            return portal.wrap_async_context_manager(_opened(self._client(), 2 * self.timeout_s))

        return portal, self._pool.get(key, connect, self.max_connections)

    def _client(self) -> Any:
        try:
            from mcp import Client, StdioServerParameters
        except ImportError as error:
            raise ImportError(f"tools of MCP servers need the official SDK: {pip_install('mcp')}") from error
        if isinstance(self.target, str):
            return Client(self.target, read_timeout_seconds=self.timeout_s)
        started = StdioServerParameters(command=self.target[0], args=list(self.target[1:]), env=self.env)
        return Client(started, read_timeout_seconds=self.timeout_s)

    def _list(self) -> list[Any]:
        portal, client = self._connect("")

        async def pages() -> list[Any]:
            found: list[Any] = []
            cursor = None
            while len(found) < _MAX_TOOLS:
                page = await client.list_tools(cursor=cursor)
                found += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    break
            return found

        listed: list[Any] = portal.call(_in_time, pages, self.timeout_s)
        return listed

    def _tool(self, found: Any) -> Tool:
        check_schema(found.input_schema, found.name)
        description = " ".join((found.description or found.title or found.name).split())
        reads = bool(found.annotations and found.annotations.read_only_hint)
        call = McpCall(self, found.name)
        return Tool(found.name, description, found.input_schema, call, takes_world=True, parallel=reads)


class _Connections:
    """Open connections to one target, by key; the oldest is closed for a new one where there are too many."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: OrderedDict[str, tuple[ExitStack, Any]] = OrderedDict()

    def get(self, key: str, connect: Callable[[], Any], most: int) -> Any:
        """Return the connection of a key; `connect` makes the context manager of a new one."""
        with self._lock:
            if key not in self._open:
                while len(self._open) >= most:
                    self._open.popitem(last=False)[1][0].close()
                stack = ExitStack()
                self._open[key] = stack, stack.enter_context(connect())
            self._open.move_to_end(key)
            return self._open[key][1]

    def close(self, key: str | None = None) -> None:
        """Close the connection of a key; None closes all."""
        with self._lock:
            for name in list(self._open) if key is None else [key] if key in self._open else []:
                self._open.pop(name)[0].close()


@cache
def _connections(process: int, target: Hashable) -> _Connections:
    return _Connections()


@cache
def _portal(process: int) -> Any:
    """Return the portal to the event loop of this process, whose daemon thread does not delay the exit."""
    import anyio
    from anyio.from_thread import BlockingPortal

    ready: Future[Any] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            ready.set_result(portal)
            await portal.sleep_until_stopped()

    threading.Thread(target=anyio.run, args=(serve,), name="marft mcp", daemon=True).start()
    return ready.result()


@dataclass(frozen=True)
class McpCall:
    """The function of a tool on a server."""

    server: McpServer
    name: str

    def __call__(self, world: World, **arguments: Any) -> Any:
        """Call the tool on the server."""
        return self.server.ask(self.name, arguments, caller=world.caller, rollout=world.rollout)


def _text_of(part: Any) -> str:
    """Return the text of a part, or of the resource in it; else its type."""
    resource = getattr(part, "resource", None)
    text = getattr(part if resource is None else resource, "text", None)
    return text if isinstance(text, str) else f"[{part.type}]"


async def _in_time(work: Callable[[], Awaitable[Any]], seconds: float) -> Any:
    """Return the result of a request.

    Raises:
        TimeoutError: It is not there in time.
    """
    import anyio

    with anyio.move_on_after(seconds):
        return await work()
    raise TimeoutError(f"timed out: no whole answer in {seconds:g} s")


@asynccontextmanager
async def _opened(client: Any, seconds: float) -> AsyncIterator[Any]:
    """Open a connection within bounded time; it stays open as long as it is used.

    Raises:
        TimeoutError: The server does not answer in time.
    """
    import anyio

    with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
        async with client as connection:
            scope.deadline = math.inf
            yield connection
    if scope.cancelled_caught:
        raise TimeoutError(f"no connection in {seconds:g} s")
