"""The examples of the page on bridges that need a package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "bridges.md"
EXAMPLES = {
    re.search(r"import (to_\w+|from_\w+)", block)[1]: block
    for block in re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if "marft_envs.bridges" in block
}


PRINTED = {
    "to_verifiers": "",
    "to_openenv": "FastAPI 8000\n",
    "from_textarena": "['player_0', 'player_1'] UnicodeText(0, 4096)\n",
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs(name):
    stand_in = "import uvicorn; uvicorn.run = lambda app, port: print(type(app).__name__, port)\n"
    code = (stand_in if name == "to_openenv" else "") + EXAMPLES[name]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED[name]


def test_every_such_bridge_has_an_example():
    assert set(EXAMPLES) == set(PRINTED)
