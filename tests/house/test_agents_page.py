"""A coding agent that follows docs/agents.md literally ends with an environment that conforms and trains."""

from __future__ import annotations

import os
import shlex
import site
import subprocess
import sys
import sysconfig
import venv
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

import pytest

from tests.house.house_pages import ROOT, blocks


def virtual_environment(folder):
    """Make a virtual environment that also sees what is installed here, and this checkout; return its Python."""
    venv.create(folder, with_pip=False)
    inner = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    seen = [str(ROOT), *site.getsitepackages(), sysconfig.get_path("purelib")]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in dict.fromkeys(seen)]
    (Path(inner) / "outer.pth").write_text("".join(lines), encoding="utf-8")
    return folder / "bin" / "python"


@pytest.mark.long
def test_the_page_for_coding_agents_can_be_followed_to_its_end(tmp_path):
    python = str(virtual_environment(tmp_path / "venv"))
    desk = tmp_path / "desk"
    desk.mkdir()
    programs = {
        "marft": [python, "-m", "baselines.cli.main"],
        "python": [python],
        "pip": [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"],
    }
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it the other way round: 0 switches isolation off
        "PYTHONPATH": "",
    }
    run = 0
    for block in blocks("docs/agents.md"):
        if block.file is not None:
            assert (desk / block.file).is_file(), f"{block.where}: the template has no such file to replace"
            (desk / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            lines = [line for line in block.text.splitlines() if line.startswith("$ ")]
            printed = ""
            for line in lines:
                program, *arguments = shlex.split(line.removeprefix("$ "))
                command = [*programs[program], *arguments]
                done = subprocess.run(
                    command, cwd=desk, env=environment, capture_output=True, encoding="utf-8", check=False
                )
                assert done.returncode == 0, f"{block.where}: {line}\n{done.stdout}{done.stderr}"
                printed += f"{line}\n{done.stdout}"
                run += 1
            assert OutputChecker().check_output(block.text, printed, ELLIPSIS), f"{block.where}:\n{printed}"
    assert run == 7
