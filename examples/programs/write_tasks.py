"""Write the tasks of the programs: the word problems of the embedded set `stories`, one JSON object a line.

Learn: the form of `--data` of a program. `python examples/programs/write_tasks.py tasks.jsonl`.
"""

import json
import sys
from pathlib import Path

import marft_envs

lines = []
for split in ("train", "test"):
    tasks = marft_envs.make("marft/gsm8k_duo-v0", data="embedded:stories", split=split).unwrapped.tasks
    for place in range(len(tasks)):
        task = tasks[place]
        lines.append({"id": task.id, "split": split, "question": task.prompt, "answer": task.answer})
Path(sys.argv[1]).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
