"""Write the tasks of the programs: problems of the embedded ladder of mathematics, one JSON object a line.

Learn: the form of `--data` of a program. `python examples/programs/write_tasks.py tasks.jsonl [LEVEL ...]`, levels 1 to
6, by default 1: find one of two numbers.
"""

import json
import sys
from pathlib import Path

import marft_envs

lines = []
for split in ("train", "test", "bench"):
    game = marft_envs.make("marft/math_duo-v0", data="embedded:ladder", split=split, level=",".join(sys.argv[2:]) or 1)
    tasks = game.unwrapped.tasks
    for place in range(len(tasks)):
        task = tasks[place]
        lines.append({"id": task.id, "split": split, "question": task.prompt, "answer": task.answer})
Path(sys.argv[1]).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
