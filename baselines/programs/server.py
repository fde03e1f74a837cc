"""The server of programs: an address for each process, with a key, and the API of the team below it.

`/episodes/ID/v1/chat/completions`, `/v1/responses`, `/v1/models`, and `/episodes/ID/reward`. It listens on this machine
alone. A process knows its own id and key, so an episode can neither read nor play another.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from baselines.gateway.api_errors import SHOWN, ApiError, read_json
from baselines.programs.chat_api import chunks, completion, read_chat
from baselines.programs.recorded_episode import RecordedEpisode, over
from baselines.programs.responses_api import events, no_embeddings, read_response, response

SEED = "a request of the program names a seed: it is passed over, the run's --seed decides what is sampled"


class Desk:
    """Address of a process.

    Attributes:
        id: Its id in URLs.
        key: Key of the process.
        episode: The episode that it plays; None between two.
    """

    def __init__(self) -> None:
        self.id, self.key = secrets.token_hex(8), f"marft-{secrets.token_hex(24)}"
        self.episode: RecordedEpisode | None = None


def program_app(
    desks: Mapping[str, Desk], agents: Sequence[str], *, ignore: bool, note: Callable[[str], None]
) -> Starlette:
    """Return the application that serves the agents to programs.

    Args:
        desks: Addresses of the processes, by their ids.
        agents: Agents of the team.
        ignore: True passes over sampling parameters of requests.
        note: Tells the user, once, what is passed over.
    """

    def episode_of(request: Request) -> RecordedEpisode:
        desk = desks.get(request.path_params["id"])
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        known = desk.key if desk is not None else secrets.token_hex(24)
        right = kind.lower() == "bearer" and hmac.compare_digest(key.strip().encode(), known.encode())
        if desk is None or not right:
            raise ApiError(401, "invalid_request_error", "wanted the key of this episode", code="invalid_api_key")
        if desk.episode is None:
            raise over()
        return desk.episode

    async def body_of(request: Request) -> Mapping[str, Any]:
        body = read_json(await request.body())
        if body.get("seed") is not None:
            note(SEED)
        return body

    async def models(request: Request) -> Response:
        episode_of(request)
        shown = [{"id": agent, "object": "model", "created": int(time.time()), "owned_by": "marft"} for agent in agents]
        return JSONResponse({"object": "list", "data": shown})

    async def chat(request: Request) -> Response:
        episode, body = episode_of(request), await body_of(request)
        wanted = read_chat(body, agents, episode.said, ignore=ignore)
        given = await episode.answer(wanted, request.is_disconnected)
        return _sent(chunks(body, given)) if body.get("stream") else JSONResponse(completion(body, given))

    async def responses(request: Request) -> Response:
        episode, body = episode_of(request), await body_of(request)
        wanted, messages = read_response(body, agents, episode.said, episode.chats, ignore=ignore)
        given = await episode.answer(wanted, request.is_disconnected)
        episode.chats[given.id] = [*messages, {"role": "assistant", "content": given.action.text}]
        return _sent(events(body, given)) if body.get("stream") else JSONResponse(response(body, given))

    async def embeddings(request: Request) -> Response:
        episode_of(request)
        raise no_embeddings()

    async def reward(request: Request) -> Response:
        episode = episode_of(request)
        episode.reward = read_json(await request.body())
        return JSONResponse({"ok": True})

    post = ["POST"]
    return Starlette(
        routes=[
            Route("/episodes/{id}/v1/models", models),
            Route("/episodes/{id}/v1/chat/completions", chat, methods=post),
            Route("/episodes/{id}/v1/responses", responses, methods=post),
            Route("/episodes/{id}/v1/embeddings", embeddings, methods=post),
            Route("/episodes/{id}/reward", reward, methods=post),
            Route("/episodes/{id}/v1/reward", reward, methods=post),
        ],
        exception_handlers=SHOWN,
    )


def _sent(stream: Iterator[str]) -> Response:
    return Response("".join(stream), media_type="text/event-stream")  # the answer has ended: nothing is gained by parts
