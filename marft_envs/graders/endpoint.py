"""A grader behind an HTTP endpoint: it gets the answer as JSON and returns a score as JSON.

    POST {"task_id", "prompt", "gold", "answer"}   ->   200 {"score": 0..1, "reason": "..."}

With `trajectory=True` the question also holds "trajectory": a list of turns (agent, round, action, events). The reply
may hold "tokens", the cost of the grade.

A failed request (no connection, timeout, any other reply) is tried again and then is a `JudgeFailure`. The answer stays
ungraded and is never counted as wrong.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marft_common.deadline import post
from marft_envs.game.task import JudgeFailure, Task
from marft_envs.graders.base import Score, Trajectory

_MOST_BYTES = 2**20
_RETRIED = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class EndpointGrader:
    """Grader that posts each answer to an endpoint.

    Attributes:
        url: Address to post to; http or https.
        timeout_s: Seconds of one try, from its start to the end of the answer.
        retries: Further tries after a failed one.
        pause_s: Seconds before the first further try; doubled for each next one.
        headers: Sent with each request (an authorisation, ...); not shown in messages.
        trajectory: True to send the whole trajectory.
    """

    url: str
    timeout_s: float = 10.0
    retries: int = 3
    pause_s: float = 0.5
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trajectory: bool = False

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"EndpointGrader: found the url {self.url!r}, wanted one of http:// or https://")
        if self.timeout_s <= 0 or self.retries < 0 or self.pause_s < 0:
            raise ValueError("EndpointGrader: wanted timeout_s > 0, retries >= 0 and pause_s >= 0")

    def __call__(self, answer: str, task: Task, trajectory: Trajectory = (), /) -> Score:
        """Request the score of an answer."""
        question: dict[str, Any] = {
            "task_id": task.id,
            "prompt": task.prompt,
            "gold": task.answer,
            "answer": answer,
        }
        if self.trajectory:
            question["trajectory"] = list(trajectory)
        body, headers = json.dumps(question).encode(), {"Content-Type": "application/json", **self.headers}
        for left in range(self.retries, -1, -1):
            cause: Exception | None = None
            try:
                found = post(self.url, body, headers, timeout_s=self.timeout_s, most_bytes=_MOST_BYTES, follows=True)
                if 200 <= found.status < 300:
                    return read_score(found.content.decode())
                fault, may_pass = f"HTTP status {found.status}", found.status in _RETRIED
            except (OSError, ValueError, http.client.HTTPException) as error:  # URLError and time-outs are OSErrors
                fault, may_pass, cause = f"{type(error).__name__}: {error}", True, error
            if not left or not may_pass:
                raise JudgeFailure(f"{self.url}: {fault}") from cause
            time.sleep(self.pause_s * 2 ** (self.retries - left))
        raise AssertionError("unreachable")


def read_score(text: str) -> Score:
    """Read `{"score": 0..1, "reason": "...", "tokens": N}`; the score alone is required.

    Raises:
        ValueError: It is something else.
    """
    return score_of(json.loads(text))


def score_of(found: Any) -> Score:
    """Return the score of a parsed answer; see `read_score`.

    Raises:
        ValueError: It is something else.
    """
    score = found.get("score") if isinstance(found, dict) else None
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError(f'found {str(found)[:200]!r}, wanted an object with a number "score" from 0 to 1')
    reason, tokens = found.get("reason", ""), found.get("tokens")
    shown = reason[:1000] if isinstance(reason, str) else ""
    return Score(float(score), shown, tokens if type(tokens) is int and tokens >= 0 else None)
