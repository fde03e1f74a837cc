"""Run the examples of pages in order, as one session of a reader: `python run_page.py BLOCKS.json`.

A Python block is executed; each line `$ command` of a console is run. Commands of `marft` run in this process.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

SEPARATOR = "=== end of block ==="


def console(text):
    """Run the commands of a console; print each with its output."""
    for command in re.findall(r"^\$ ((?:.*\\\n)*.*)", text, re.MULTILINE):
        print(f"$ {command}", flush=True)
        _run(shlex.split(command.replace("\\\n", " ")))


def _run(command):
    program, *arguments = command
    if program == "marft":
        from baselines.cli.main import main

        code = main(arguments)
    else:
        assert program == "python", f"a console of a page runs marft or python, not {program}"
        code = subprocess.run([sys.executable, *arguments], check=False).returncode
    assert code == 0, f"exit code {code} of {shlex.join(command)}"


def main(blocks):
    names = vars(sys.modules["__main__"])  # where pickle and copy look for classes of the page
    sys.path.insert(0, os.getcwd())
    for block in blocks:
        if block["language"] == "python":
            exec(compile(block["text"], block["where"], "exec"), names)
        else:
            console(block["text"])
        print(SEPARATOR)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
