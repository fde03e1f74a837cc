"""A training on a program that is killed in the middle of an episode goes on with that very episode."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, signal, sys, urllib.request

def ask(agent, text):
    body = json.dumps({"model": agent, "messages": [{"role": "user", "content": text}]}).encode()
    key = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, key)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]

for line in sys.stdin:
    task = json.loads(line)
    plan = ask("planner", task)
    with open("begun", "a") as begun:
        begun.write(".")
        if begun.tell() == int(os.environ["KILL_AT"]):
            os.kill(os.getppid(), signal.SIGKILL)
    print(json.dumps({"reward": len(ask("coder", task + plan)) % 2}), flush=True)
"""
FLAGS = (
    "--agents planner,coder --data tasks.jsonl --model tiny --max-new-tokens 4 --updates 3 --groups 2 --group-size 2"
)


def train(folder, *arguments, kill_at=0):
    """Train in a process of its own; the program kills it in the middle of its n-th episode, 0: of none."""
    code = "import sys; from baselines.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environment = os.environ | {"KILL_AT": str(kill_at), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, "train", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_killed_training_goes_on_with_the_very_episodes(tmp_path):
    found = {}
    for name, kill_at in (("whole", 0), ("killed", 7)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "program.py").write_text(PROGRAM)
        (folder / "tasks.jsonl").write_text("".join(json.dumps(f"task {k}") + "\n" for k in range(5)))
        program = ["--program", f"{sys.executable} -I -S program.py", "--program-episodes", "0", "--out", "run"]
        done = train(folder, *program, *FLAGS.split(), kill_at=kill_at)
        if kill_at:
            assert done.returncode == -signal.SIGKILL
            assert len((folder / "run" / "metrics.jsonl").read_text().splitlines()) == 1  # of 3 updates
            done = train(folder, "--resume", "run")
        assert done.returncode == 0, done.stderr
        adapters = sorted((folder / "run" / "checkpoints" / "update-00003").rglob("adapter_model.safetensors"))
        found[name] = (folder / "run" / "episodes.jsonl").read_text(), [file.read_bytes() for file in adapters]
    assert len(found["whole"][0].splitlines()) == 12
    assert len(found["whole"][1]) == 2
    assert found["killed"] == found["whole"]
