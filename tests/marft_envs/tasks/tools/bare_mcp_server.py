"""An MCP server over stdio without the SDK, which would refuse such answers: pages without end, odd contents."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from typing import Any

TOOL = {"name": "read", "inputSchema": {"type": "object", "properties": {}}}
RESOURCES = [
    {"type": "text", "text": "downloaded"},
    {"type": "resource", "resource": {"uri": "repo://a/b", "mimeType": "text/plain", "text": "the file"}},
    {"type": "resource", "resource": {"uri": "repo://a/c", "mimeType": "image/png", "blob": "aGk="}},
    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    {"type": "resource_link", "uri": "repo://a/d", "name": "d"},
]
PAGES = itertools.count()


def answer(kind: str, message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None without an answer."""
    method = message["method"]
    if method == "initialize":
        about = {"name": "bare", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list" and kind in ("empty pages", "full pages"):
        page = next(PAGES)
        tools = [TOOL | {"name": f"t{page}_{i}"} for i in range(100)] if kind == "full pages" else []
        return {"tools": tools, "nextCursor": str(page)}
    if method == "tools/list":
        return {"tools": [TOOL | {"annotations": {"readOnlyHint": True}}, TOOL | {"name": "write"}]}
    if method == "tools/call" and kind == "progress":
        threading.Thread(target=report, args=(message,), daemon=True).start()
        return None
    return {"content": RESOURCES}


def report(message: dict[str, Any]) -> None:
    """Send progress of a call for ever."""
    token = message["params"].get("_meta", {}).get("progressToken", 0)
    for number in itertools.count():
        about = {"progressToken": token, "progress": number}
        send({"method": "notifications/progress", "params": about})
        time.sleep(0.02)


def send(message: dict[str, Any]) -> None:
    """Send a message."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked and (result := answer(sys.argv[1], asked)) is not None:
        send({"id": asked["id"], "result": result})
