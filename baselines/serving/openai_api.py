"""The OpenAI API of a served team: `/v1/models` and `/v1/chat/completions`, streamed and not.

The texts of all system and user messages are the problem. A team keeps no conversation: messages of the assistant or of
tools are refused, as is every parameter that would change the answer and that the team does not know. The transcript is
in `metadata` of the completion; in a stream it is in the last chunk with a choice.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from baselines.gateway.api_errors import SHOWN, ApiError, number, read_json, refuse, whole
from baselines.serving.served_team import (
    Answer,
    BusyError,
    EpisodeFailedError,
    Question,
    QuestionError,
    ServedTeam,
    with_sampling,
)

READ = ("system", "developer", "user")  # roles whose text is part of the problem
UNUSED = ("model", "messages", "stream", "stream_options", "user", "metadata", "store", "safety_identifier")
SAMPLING = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed")
SAME_AS_NONE: Mapping[str, Any] = {  # a parameter that asks for what the team does anyway
    "n": 1,
    "logprobs": False,
    "stop": [],
    "tools": [],
    "tool_choice": "none",
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "response_format": {"type": "text"},
}


def openai_app(served: ServedTeam) -> Starlette:
    """Return the application that serves a team."""
    created = int(time.time())

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_model(served, created)]})

    async def model(request: Request) -> Response:
        _check_model(served, request.path_params["name"])
        return JSONResponse(_model(served, created))

    async def chat_completions(request: Request) -> Response:
        body = read_json(await request.body())
        question = read_question(body, served)
        try:
            answer = await served.ask(question)
        except QuestionError as error:
            raise ApiError(400, "invalid_request_error", str(error), param="messages") from error
        except BusyError as error:
            raise ApiError(429, "rate_limit_error", str(error), code="server_busy") from error
        except TimeoutError as error:
            message = f"no answer in {served.limits.request_timeout:g} s"
            raise ApiError(504, "server_error", message, code="timeout") from error
        except EpisodeFailedError as error:
            raise ApiError(500, "server_error", str(error), code="episode_failed") from error
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": served.name}
        if body.get("stream"):
            usage = isinstance(body.get("stream_options"), Mapping) and body["stream_options"].get("include_usage")
            return StreamingResponse(_chunks(head, answer, bool(usage)), media_type="text/event-stream")
        return JSONResponse(_completion(head, answer))

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        ],
        exception_handlers=SHOWN,
    )


def read_question(body: Mapping[str, Any], served: ServedTeam) -> Question:
    """Return the question of a request.

    Raises:
        ApiError: The request asks for something that the team cannot do; names the parameter.
    """
    _check_model(served, body.get("model"))
    for name, value in body.items():
        if name not in (*UNUSED, *SAMPLING) and value is not None and value != SAME_AS_NONE.get(name):
            refuse(name, f"this team does not know the parameter {name!r}; leave it out", "unsupported_parameter")
    if body.get("stream") not in (None, True, False):
        refuse("stream", "stream: wanted true or false")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        refuse("max_tokens", "wanted one of max_tokens and max_completion_tokens")
    limit = whole(body, "max_tokens") or whole(body, "max_completion_tokens")
    try:
        sampling = with_sampling(
            served.sampling,
            temperature=number(body, "temperature"),
            top_p=number(body, "top_p"),
            max_new_tokens=limit,
        )
    except QuestionError as error:
        raise ApiError(400, "invalid_request_error", str(error)) from error
    return Question(_text(body.get("messages")), sampling, abs(whole(body, "seed") or 0))


def _text(messages: Any) -> str:
    """Return the texts of all messages, one after the other."""
    if not isinstance(messages, list) or not messages:
        refuse("messages", "messages: wanted a list with at least one message")
    texts = []
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in READ:
            refuse(where, f"{where}: found role {role!r}, wanted {', '.join(READ)}: a team keeps no conversation")
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(parts, list) or not all(
            isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
            for part in parts
        ):
            refuse(f"{where}.content", f"{where}.content: wanted text, or a list of parts of type text")
        texts += [part["text"] for part in parts]
    return "\n\n".join(texts)


def _check_model(served: ServedTeam, name: Any) -> None:
    if name != served.name:
        message = f"model {name!r:.200} does not exist; this server has {served.name!r}"
        raise ApiError(404, "invalid_request_error", message, param="model", code="model_not_found")


def _model(served: ServedTeam, created: int) -> dict[str, Any]:
    return {"id": served.name, "object": "model", "created": created, "owned_by": "marft"}


def _completion(head: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": _reason(answer), "logprobs": None}
    return {
        **head,
        "object": "chat.completion",
        "choices": [choice],
        "usage": _usage(answer),
        "metadata": {"transcript": list(answer.transcript)},
    }


def _chunks(head: Mapping[str, Any], answer: Answer, usage: bool) -> Iterator[str]:
    """Yield the events of a stream; it starts when the answer is there, since only then it is known."""

    def event(delta: Mapping[str, Any] | None, reason: str | None = None, **more: Any) -> str:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json.dumps(chunk)}\n\n"

    yield event({"role": "assistant", "content": ""})
    yield event({"content": answer.text})
    yield event({}, _reason(answer), metadata={"transcript": list(answer.transcript)})
    if usage:
        yield event(None, usage=_usage(answer))
    yield "data: [DONE]\n\n"


def _reason(answer: Answer) -> str:
    return "stop" if answer.stopped else "length"


def _usage(answer: Answer) -> dict[str, int]:
    prompt, output = answer.prompt_tokens, answer.output_tokens
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
