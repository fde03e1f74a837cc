"""CPU time of agent programs: their server per request, and tokens per CPU-second beside ordinary rollouts.

    python -m benchmarks.programs [--requests 2048] [--episodes 64] [--repetitions 3] [--model smollm2-135m]

Requests: a program of the standard library keeps 64 connections busy, and the agents answer at once. Counted is the
thread of the server alone: it reads and checks a request, hands it on, and sends the answer.

Rollouts: one team plays the same prompts greedily, as an environment and as a program that asks them, in turn. Counted
is the process that plays, with all of its threads; the programs are processes of their own.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from baselines.experiment.environments import factory
from baselines.programs import ENVIRONMENT
from marft_agents.policies.policy import FunctionPolicy, Request, text_action
from marft_agents.rollouts.rollout import collect
from marft_agents.trajectory import Action, EpisodeStart, Trajectory

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


ASKING = r"""
import json, os, sys, urllib.request

for line in sys.stdin:
    body = json.dumps({"model": "actor_0", "messages": json.loads(line)}).encode()
    key = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(url, body, key)).read()
    print('{"reward": 1}', flush=True)
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


def rates(model: str, episodes: int, repetitions: int) -> tuple[list[float], list[float]]:
    """Return the tokens per CPU-second of ordinary rollouts and of a program, by repetition.

    Raises:
        RuntimeError: The two did not play the same prompts and answers, or an episode failed.
    """
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.base_settings import LoraSettings
    from marft_agents.policies.team_building import build_team

    game = factory("marft/math_solo-v0", {"data": "embedded:ladder", "team": "ladder_solo"})
    env = game()
    lines = []
    for index in range(episodes):
        env.reset(seed=0, options={"index": index})
        lines.append(json.dumps([dict(message) for message in env.observe(env.agent_selection).messages]))
    sampling = SamplingParams(max_new_tokens=24, temperature=0.0)
    team = build_team(["actor_0"], {"*": model}, lora=LoraSettings(), sampling=sampling)
    starts = [EpisodeStart(index, index, 0, {"index": index}) for index in range(episodes)]
    found: tuple[list[float], list[float]] = [], []
    with tempfile.TemporaryDirectory() as folder:
        client, data = Path(folder) / "client.py", Path(folder) / "data.jsonl"
        client.write_text(ASKING)
        data.write_text("".join(f"{line}\n" for line in lines))
        keywords = {"program": f"{sys.executable} -I -S {client}", "agents": ["actor_0"], "data": str(data)}
        program = factory(ENVIRONMENT, {**keywords, "program_episodes": 0})()
        for repetition in range(-1, repetitions):  # the first one warms up
            played = []
            for make_env, rate in zip((game, lambda: program), found, strict=True):
                began = time.process_time()
                played.append(collect(make_env, team, starts, seed=0, num_envs=OPEN, patience=math.inf))
                seconds = time.process_time() - began
                if repetition >= 0:
                    rate.append(sum(episode.num_tokens for episode in played[-1]) / seconds)
            if any(_asked(one) != _asked(other) for one, other in zip(*played, strict=True)):
                raise RuntimeError("the program and the environment played other prompts or answers")
        program.unwrapped.programs.close()
    return found


def _asked(episode: Trajectory) -> list[tuple[list[int], str]]:
    if episode.failure is not None:
        raise RuntimeError(episode.failure)
    return [(turn.action.prompt_ids.tolist(), turn.action.text) for turn in episode.turns]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2048, help=f"a multiple of {OPEN} (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=64, help="of each rollout (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=3, help="of each rollout; 0: none (default: %(default)s)")
    parser.add_argument("--model", default="smollm2-135m", help="of the rollouts (default: %(default)s)")
    given = parser.parse_args(arguments)
    sys.stdout.write(f"{milliseconds(given.requests):.2f} ms CPU a request, {OPEN} open, {given.requests} requests\n")
    if given.repetitions:
        ordinary, program = (np.array(rate) for rate in rates(given.model, given.episodes, given.repetitions))
        ratios = ", ".join(f"{ratio:.2f}" for ratio in program / ordinary)
        sys.stdout.write(f"tokens per CPU-second: program {program.mean():.1f}, ordinary {ordinary.mean():.1f}; ")
        sys.stdout.write(f"ratios of the repetitions {ratios}\n")


if __name__ == "__main__":
    main()
