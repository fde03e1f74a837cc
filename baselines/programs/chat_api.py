"""Chat completions for the agents of a team: requests in, answers out, streamed and not.

A parameter is honoured or refused with the reason; none is passed over in silence that would change an answer. The
model is the name of an agent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from baselines.gateway.api_errors import number, refuse, whole
from baselines.programs.chat_messages import read_messages, read_tools
from baselines.programs.recorded_episode import Given, Wanted

# what changes no answer
UNUSED = (
    *("user", "metadata", "store", "safety_identifier", "prompt_cache_key", "service_tier", "stream_options", "seed"),
    *("verbosity", "prompt_cache_retention"),
)
READ = (
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stop", "max_tokens"),
    *("max_completion_tokens", "stream", "logprobs", "temperature", "top_p"),
)
SAME_AS_NONE: Mapping[str, Any] = {
    "n": 1,
    "top_logprobs": 0,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logit_bias": {},
    "response_format": {"type": "text"},
    "modalities": ["text"],
}
WHY = {
    "n": "n: an agent gives one answer to a request; ask again for another",
    "top_logprobs": "top_logprobs: the log-prob of the sampled token alone is known",
    "response_format": "response_format: the agents keep no format of JSON; ask for it in the prompt and check it",
    "functions": "functions: use tools",
}
MOST_STOPS = 4


def agent_of(body: Mapping[str, Any], agents: Sequence[str]) -> str:
    """Return the agent that a request names as its model.

    Raises:
        ApiError: There is none of this name.
    """
    name = body.get("model")
    if name not in agents:
        refuse("model", f"model: found {name!r:.200}, wanted an agent: {', '.join(agents)}", "model_not_found")
    return str(name)


def refuse_unknown(body: Mapping[str, Any], known: Sequence[str], same: Mapping[str, Any], *, ignore: bool) -> None:
    """Refuse parameters that would change an answer and are not honoured.

    Args:
        body: Body of the request.
        known: Parameters that are honoured, or change nothing.
        same: Further parameters with the values that ask for what is done anyway.
        ignore: True passes over other sampling parameters.
    """
    for name, value in body.items():
        if name in known or value is None or value == same.get(name, object()):
            continue
        if ignore and name in ("frequency_penalty", "presence_penalty", "logit_bias"):
            continue
        refuse(name, WHY.get(name, f"{name} = {value!r:.80} is not supported; leave it out"), "unsupported_parameter")


def sampling_in(body: Mapping[str, Any]) -> dict[str, float]:
    """Return the sampling parameters of a request, by their names in `SamplingParams`."""
    given = {name: number(body, name) for name in ("temperature", "top_p")}
    return {name: value for name, value in given.items() if value is not None}


def read_chat(body: Mapping[str, Any], agents: Sequence[str], said: Mapping[str, str], *, ignore: bool) -> Wanted:
    """Return what a request of chat completions wants.

    Args:
        body: Body of the request.
        agents: Agents of the team.
        said: Sampled texts of this episode by the ids of their tool calls.
        ignore: True passes over sampling parameters.

    Raises:
        ApiError: It asks for something that cannot be done; names the parameter.
    """
    agent = agent_of(body, agents)
    refuse_unknown(body, (*READ, *UNUSED), SAME_AS_NONE, ignore=ignore)
    limit = whole(body, "max_tokens") or whole(body, "max_completion_tokens")
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or len(stop) > MOST_STOPS or not all(isinstance(s, str) and s for s in stop):
        refuse("stop", f"stop: wanted a text, or a list of at most {MOST_STOPS}")
    tools = read_tools(body)
    prompt = read_messages(body, tools, said)
    named = set()
    for message in body["messages"]:
        named.add(message.get("tool_call_id"))
        named |= {call.get("id") for call in message.get("tool_calls") or ()}
    ids = frozenset(one for one in named if isinstance(one, str))
    return Wanted(agent, prompt, tools, limit, tuple(stop), sampling_in(body), ids)


def completion(body: Mapping[str, Any], given: Given) -> dict[str, Any]:
    """Return the answer to a request."""
    message: dict[str, Any] = {"role": "assistant", "content": given.content, "refusal": None}
    if given.calls:
        message["tool_calls"] = [call.to_dict() for call in given.calls]
    logprobs = logprobs_of(given) if body.get("logprobs") else None
    choice = {"index": 0, "message": message, "finish_reason": reason_of(given), "logprobs": logprobs}
    return {**_head(body, given), "object": "chat.completion", "choices": [choice], "usage": usage_of(given)}


def chunks(body: Mapping[str, Any], given: Given) -> Iterator[str]:
    """Yield the events of a stream; they come when the answer has ended."""
    head = {**_head(body, given), "object": "chat.completion.chunk"}

    def event(delta: Mapping[str, Any] | None, reason: str | None = None, **more: Any) -> str:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]
        return f"data: {json.dumps({**head, 'choices': choices, **more})}\n\n"

    yield event({"role": "assistant", "content": given.content or ""})
    for index, call in enumerate(given.calls):
        yield event({"tool_calls": [{"index": index, **call.to_dict()}]})
    yield event({}, reason_of(given))
    if isinstance(options := body.get("stream_options"), Mapping) and options.get("include_usage"):
        yield event(None, usage=usage_of(given))
    yield "data: [DONE]\n\n"


def _head(body: Mapping[str, Any], given: Given) -> dict[str, Any]:
    return {"id": given.id, "created": int(time.time()), "model": body["model"]}


def reason_of(given: Given) -> str:
    """Return the `finish_reason` of an answer."""
    if given.calls:
        return "tool_calls"
    return "stop" if given.action.stopped else "length"


def usage_of(given: Given) -> dict[str, int]:
    """Return the token counts of an answer."""
    prompt, output = len(given.action.prompt_ids), given.action.num_tokens
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def logprobs_of(given: Given) -> dict[str, Any]:
    """Return the id and the log-prob of each sampled token; its id stands as its text."""
    pairs = zip(given.action.token_ids.tolist(), given.action.logprobs.tolist(), strict=True)
    content = [
        {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
        for token, logprob in pairs
    ]
    return {"content": content, "refusal": None}
