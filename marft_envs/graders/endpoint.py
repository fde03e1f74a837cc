"""A grader behind an HTTP endpoint: it gets the answer as JSON and returns a score as JSON.

    POST {"task_id", "prompt", "gold", "answer"}   ->   200 {"score": 0..1, "reason": "..."}

With `trajectory=True` the question also holds "trajectory": a list of turns (agent, round, action, events). The reply
may hold "tokens", the cost of the grade.

A failed request (no connection, timeout, any other reply) is tried again and then is a `JudgeFailure`. The answer stays
ungraded and is never counted as wrong.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marft_envs.graders.base import Score, Trajectory
from marft_envs.tasks.base import JudgeFailure, Task

_MOST_BYTES = 2**20
_RETRIED = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class EndpointGrader:
    """Grader that posts each answer to an endpoint.

    Attributes:
        url: Address to post to; http or https.
        timeout_s: Seconds until one try is given up.
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
        for left in range(self.retries, -1, -1):
            try:
                return read_score(self._post(question))
            except (OSError, ValueError) as error:  # URLError and time-outs are OSErrors
                if not left or (isinstance(error, urllib.error.HTTPError) and error.code not in _RETRIED):
                    raise JudgeFailure(f"{self.url}: {type(error).__name__}: {error}") from error
                time.sleep(self.pause_s * 2 ** (self.retries - left))
        raise AssertionError("unreachable")

    def _post(self, question: Mapping[str, Any]) -> str:
        body = json.dumps(question).encode()
        request = urllib.request.Request(
            self.url, body, {"Content-Type": "application/json", **self.headers}, method="POST"
        )
        end, content = time.monotonic() + self.timeout_s, bytearray()
        with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
            while part := response.read1(65536):
                content += part
                if len(content) > _MOST_BYTES:
                    raise ValueError(f"an answer of more than {_MOST_BYTES} bytes")
                if time.monotonic() > end:  # the socket's own limit is for each part alone
                    raise TimeoutError(f"the answer is not whole after {self.timeout_s:g} s")
        return content.decode()


def read_score(text: str) -> Score:
    """Read `{"score": 0..1, "reason": "...", "tokens": N}`; the score alone is required.

    Raises:
        ValueError: It is something else.
    """
    found = json.loads(text)
    score = found.get("score") if isinstance(found, dict) else None
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError(f'found {text[:200]!r}, wanted an object with a number "score" from 0 to 1')
    reason, tokens = found.get("reason", ""), found.get("tokens")
    shown = reason[:1000] if isinstance(reason, str) else ""
    return Score(float(score), shown, tokens if type(tokens) is int and tokens >= 0 else None)
