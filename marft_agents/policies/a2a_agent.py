"""A remote agent that speaks A2A, as an agent of a team; needs `pip install 'marft[a2a]'`.

The agent gets each observation as one message and is asked for text. It has its own sampling parameters, and keeps no
memory between turns: each request is a conversation of its own. A request that fails makes its episode fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from marft_agents.generation.sampling import SamplingParams
from marft_agents.policies.policy import Request, failed_action, text_action
from marft_agents.policies.remote import RemoteError, shorten
from marft_agents.trajectory import Action
from marft_common.installation import pip_install

POLL_S = 0.2  # pause between two looks at a task that is not over, in seconds
LONGEST_REPLY = 1_000_000  # characters of text; a longer one is a failure


class A2APolicy:
    """Policy that asks an A2A agent for each action.

    Args:
        url: URL of the agent; its card is read from `/.well-known/agent-card.json` there.
        concurrency: Largest number of requests in flight.
        timeout_s: Time limit of one try, from the first byte sent to the last one received, in seconds.
        retries: Number of further tries after a failed one.

    Raises:
        RemoteError: The package `a2a-sdk` is missing.
    """

    def __init__(self, url: str, *, concurrency: int = 8, timeout_s: float = 60.0, retries: int = 2) -> None:
        try:
            import a2a.client  # noqa: F401
        except ImportError as error:
            raise RemoteError(f"A2A agents need the package a2a-sdk: {pip_install('a2a')}") from error
        self.url, self.concurrency, self.timeout_s, self.retries = url, concurrency, timeout_s, retries

    def __str__(self) -> str:
        return f"a2a:{self.url}"

    def under(self, sampling: SamplingParams) -> A2APolicy:
        """Return the same agent: its sampling parameters are its own."""
        return self

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Request one action per turn, `concurrency` at a time; a failed request is an action with a failure."""
        return list(_run(self._act_all(requests))) if requests else []

    def check(self) -> None:
        """Raise a RemoteError if the agent shows no card."""
        _run(self._check())

    def close(self) -> None:
        """Do nothing: connections last for one batch of requests."""

    async def _check(self) -> None:
        import httpx

        try:
            async with asyncio.timeout(self.timeout_s), httpx.AsyncClient(timeout=self.timeout_s) as http:
                await self._client(http)
        except _errors() as error:
            raise RemoteError(f"A2A agent {self.url}: wanted an agent card, found {_told(error)}") from error

    async def _act_all(self, requests: Sequence[Request]) -> list[Action]:
        import httpx

        places = asyncio.Semaphore(self.concurrency)
        async with httpx.AsyncClient(timeout=self.timeout_s) as http:
            return await asyncio.gather(*(self._act(http, places, request) for request in requests))

    async def _act(self, http: Any, places: asyncio.Semaphore, request: Request) -> Action:
        async with places:
            for tries_left in reversed(range(self.retries + 1)):
                try:
                    async with asyncio.timeout(self.timeout_s):
                        return text_action(await self._ask(http, str(request.observation)))
                except _errors() as error:
                    cause = f"A2A agent {self.url}, agent {request.agent!r}: {_told(error)}"
                if tries_left:
                    await asyncio.sleep(POLL_S)
        return failed_action(cause)

    async def _client(self, http: Any) -> Any:
        from a2a.client import ClientConfig, create_client

        return await create_client(self.url, ClientConfig(httpx_client=http, streaming=False))

    async def _ask(self, http: Any, text: str) -> str:
        from a2a.helpers.proto_helpers import get_stream_response_text, new_text_message
        from a2a.types.a2a_pb2 import GetTaskRequest, Role, SendMessageRequest, StreamResponse, TaskState

        client = await self._client(http)
        message = new_text_message(text, role=Role.ROLE_USER)
        [reply] = [event async for event in client.send_message(SendMessageRequest(message=message))]
        waiting = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
        while reply.HasField("task") and reply.task.status.state in waiting:
            await asyncio.sleep(POLL_S)
            reply = StreamResponse(task=await client.get_task(GetTaskRequest(id=reply.task.id)))
        if reply.HasField("task") and reply.task.status.state != TaskState.TASK_STATE_COMPLETED:
            raise RemoteError(f"its task ended as {TaskState.Name(reply.task.status.state)}: {shorten(reply)}")
        said: str = get_stream_response_text(reply)
        if not said or len(said) > LONGEST_REPLY:
            wanted = f"text of 1 to {LONGEST_REPLY:,} characters"
            raise RemoteError(f"wanted {wanted}, found {len(said)} characters in {shorten(reply)}")
        return said


def _errors() -> tuple[type[Exception], ...]:
    """Return what a request to a remote agent may raise; a reply may be anything, so parsing it may raise too."""
    import httpx
    from a2a.utils.errors import A2AError
    from google.protobuf.json_format import ParseError

    return (
        *(A2AError, httpx.HTTPError, httpx.InvalidURL, TimeoutError, RemoteError),
        *(ParseError, ValueError, TypeError, KeyError, AttributeError),
    )


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, RemoteError) else f"{type(error).__name__}: {shorten(error)}"


def _run(work: Any) -> Any:
    """Run a coroutine to its end; in a thread of its own, since the caller may have a running event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
