"""A real MCP server for the tests: a basket by rollout, one by connection, and a tool that fails."""

from __future__ import annotations

import socket
import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("baskets")
by_rollout: dict[str, list[str]] = {}
of_process: list[str] = []


@server.tool()
def add(item: str, context: Context) -> list[str]:
    """Add an item to the basket."""
    meta = context.request_context.meta or {}
    basket = by_rollout.setdefault(meta["marft/rollout"], [])
    basket.append(f"{item} of {meta['marft/agent']}")
    return basket


@server.tool()
def keep(item: str) -> list[str]:
    """Keep an item in the process."""
    of_process.append(item)
    return of_process


@server.tool()
async def fail(how: str) -> str:
    """Fail."""
    if how == "wait":
        await anyio.sleep(60)
    if how == "huge":
        return "x" * 100_000  # it is sent twice, in an event that may have 1 MiB
    raise ToolError("no such thing")


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        import uvicorn

        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
