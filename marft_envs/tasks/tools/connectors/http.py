"""Tools behind HTTP endpoints.

    book = http_tool("book", "Book a room.", schema, "http://127.0.0.1:8080/book")
    tasks = ToolTasks("hotel", [Toolbox("hotel", {"book": book})], [...])

The arguments go as a JSON object in the body of a POST; the answer is JSON or text. Headers name the episode and
the agent, so that a back end with state can tell episodes apart:

| header | meaning |
|---|---|
| X-Marft-Rollout | unique to the running game |
| X-Marft-Agent | the calling agent |
| Idempotency-Key | the same for all tries of one call |

Changes in the back end are outside of the state that a task is graded on. Redirects are not followed.
"""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marft_common.deadline import LongReplyError, post
from marft_envs.tasks.tools.definition import Schema, Tool, ToolDefinitionError, ToolError, check_result
from marft_envs.tasks.tools.world import World

_RETRIED = frozenset({429, 502, 503, 504})
_SAID_CHARS = 200


@dataclass(frozen=True)
class HttpCall:
    """The function of a tool behind an endpoint.

    Attributes:
        url: Address with http or https.
        headers: Headers sent with every call (authorization, ...); not part of the tool surface.
        timeout_s: Seconds of one try, from its start to the end of the answer, headers included.
        retries: Number of further tries after a refused connection, a timeout or a status 429, 502, 503 or 504.
        pause_s: Seconds before the first retry; doubles with each.
        max_bytes: Largest answer in bytes; a longer one is an error.
        result: JSON Schema of the result; empty: any.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 5.0
    retries: int = 1
    pause_s: float = 0.1
    max_bytes: int = 65536
    result: Schema = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ToolDefinitionError(
                f"found the address {self.url!r}, wanted one that begins with http:// or https://"
            )

    def __call__(self, world: World, **arguments: Any) -> Any:
        """Call the endpoint.

        Raises:
            ToolError: It cannot be reached, answers with an error, too late or too much.
            BrokenSchemaError: The result is not of its declared schema.
        """
        own = {"X-Marft-Rollout": world.rollout, "X-Marft-Agent": world.caller, "Idempotency-Key": uuid.uuid4().hex}
        headers = {"Content-Type": "application/json", **self.headers, **own}
        body = json.dumps(arguments).encode()
        for left in reversed(range(self.retries + 1)):
            try:
                found = post(self.url, body, headers, timeout_s=self.timeout_s, most_bytes=self.max_bytes)
                if 200 <= found.status < 300:
                    result = _result(found.content)
                    check_result(result, self.result, f"the back end at {self.url}")
                    return result
                if found.status not in _RETRIED or not left:
                    raise ToolError(f"the back end says {found.status}: {_start_of(found.content)}")
            except LongReplyError as error:
                raise ToolError(f"the answer of the back end is longer than {self.max_bytes} bytes") from error
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    reason = str(getattr(error, "reason", error) or type(error).__name__)[:_SAID_CHARS]
                    raise ToolError(f"the back end gives no answer: {reason}") from error
            time.sleep(self.pause_s * 2 ** (self.retries - left))
        raise AssertionError("unreachable: the last try returns or raises")


def http_tool(
    name: str, description: str, parameters: Schema, url: str, *, parallel: bool = False, **options: Any
) -> Tool:
    """Make a tool of an endpoint.

    Args:
        name: Name of the tool.
        description: Description for the model.
        parameters: JSON Schema of an object; its properties in the order of positional arguments.
        url: Address with http or https; gets a POST for each call.
        parallel: True if the back end may get several calls of one turn at the same time.
        **options: Further fields of `HttpCall`.

    Raises:
        ToolDefinitionError: Another kind of address, or no such schema.
    """
    return Tool(name, description, parameters, HttpCall(url, **options), takes_world=True, parallel=parallel)


def _result(content: bytes) -> Any:
    text = content.decode("utf-8", errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # no JSON: the result is the text itself
        return text


def _start_of(content: bytes) -> str:
    return " ".join(content[: 4 * _SAID_CHARS].decode("utf-8", errors="replace").split())[:_SAID_CHARS]
