"""CPU time of the server of agent programs per request, with 64 requests open.

    python -m benchmarks.programs [--requests 2048]

A program of the standard library keeps 64 connections busy, and the agents answer at once. Counted is the thread of the
server alone: it reads and checks a request, hands it on, and sends the answer.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from baselines.experiment.environments import factory
from baselines.programs import ENVIRONMENT
from marft_agents.policies.policy import FunctionPolicy, Request, text_action
from marft_agents.rollouts.rollout import collect
from marft_agents.trajectory import Action, EpisodeStart

OPEN = 64  # connections of the program
TICKS = 100  # of the kernel's clock, a second
CLIENT = r"""
import asyncio, json, os, sys

async def one(host, port, path, count):
    reader, writer = await asyncio.open_connection(host, port)
    body = json.dumps({"model": "a", "messages": [{"role": "user", "content": "x" * 400}]})
    key = os.environ["OPENAI_API_KEY"]
    head = f"POST {path}/chat/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
    request = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    for _ in range(count):
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(answer.lower().split(b"content-length: ")[1].split(b"\r")[0]))
    writer.close()

async def main(connections, count):
    host, path = os.environ["OPENAI_BASE_URL"].split("//")[1].split("/", 1)
    name, port = host.split(":")
    await asyncio.gather(*(one(name, int(port), "/" + path, count) for _ in range(connections)))

asyncio.run(main(*json.loads(sys.stdin.readline())))
print(json.dumps({"reward": 1}))
"""


def server_seconds() -> float:
    """Return the CPU seconds of the server's thread so far."""
    [thread] = [one for one in threading.enumerate() if one.name == "marft-programs"]
    fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def milliseconds(requests: int) -> float:
    """Return the CPU milliseconds of the server per request, from the first answer to the last."""
    seconds: list[float] = []

    def answer(asked: Sequence[Request]) -> list[Action]:
        seconds.append(server_seconds())
        return [text_action("yes " * 16) for _ in asked]

    with tempfile.TemporaryDirectory() as folder:
        client, data = Path(folder) / "client.py", Path(folder) / "data.jsonl"
        client.write_text(CLIENT)
        data.write_text(json.dumps([OPEN, requests // OPEN]))
        keywords = {"program": f"{sys.executable} {client}", "agents": ["a"], "data": str(data)}
        env = factory(ENVIRONMENT, {**keywords, "program_requests": requests})()
        [played] = collect(lambda: env, FunctionPolicy(answer), [EpisodeStart(0, 0, 0)], seed=0)
        env.unwrapped.programs.close()
    if played.failure is not None:
        raise RuntimeError(played.failure)
    return 1000 * (seconds[-1] - seconds[0]) / max(1, len(played.turns) - OPEN)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2048, help=f"a multiple of {OPEN} (default: %(default)s)")
    requests = parser.parse_args(arguments).requests
    sys.stdout.write(f"{milliseconds(requests):.2f} ms CPU a request, {OPEN} open, {requests} requests\n")


if __name__ == "__main__":
    main()
