"""`marft new`: what it makes installs, conforms and trains untouched; what it cannot make, it says."""

from __future__ import annotations

import argparse
import json
import os
import site
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import EntryPoint
from pathlib import Path

import gymnasium
import pytest

import marft_envs
from baselines import scaffold
from baselines.cli import new
from baselines.cli.main import main
from baselines.scaffold import ScaffoldError, create
from marft_envs.registration import registry

DUO = "my/riddle_book_duo-v0"
CHECK = f"""
import importlib, sys, time, types
import pytest
from baselines.cli.main import main
benchmark = importlib.import_module("pettingzoo.test.performance_benchmark")
benchmark.time = types.SimpleNamespace(time=lambda: 50 * time.time())  # its five seconds pass in a fiftieth of the time
assert main(["envs", "--json"]) == 0
assert main(["check", {DUO!r}]) == 0
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "riddle_book"]))
"""
SMALL = ["--groups", "2", "--group-size", "2", "--max-new-tokens", "4", "--updates", "1", "--device", "cpu"]


def make(*arguments):
    parser = argparse.ArgumentParser()
    new.add_flags(parser)
    parsed = parser.parse_args([*map(str, arguments)])
    return parsed.run(parsed)


def test_what_it_prints_are_the_next_commands(tmp_path, capsys):
    assert make("riddle_book", "--dir", tmp_path / "deep" / "down") == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "deep" / "down" / "riddle_book"
    assert f"pip install -e '{folder}[test]'\n" in printed
    assert f"marft check {DUO}\n" in printed
    assert f"marft train --env {DUO} --model tiny" in printed
    assert [entry.name for entry in folder.parent.iterdir()] == ["riddle_book"]  # nothing temporary stays


def test_the_files_hold_the_names_and_nothing_of_the_template(tmp_path):
    folder = create("word2_games", tmp_path, "lab")
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        *("pyproject.toml", "README.md", "tests/test_word2_games.py"),
        *(f"src/word2_games/{name}" for name in ("__init__.py", "tasks.py", "make_data.py")),
        *(f"src/word2_games/{name}" for name in ("data/train.jsonl", "data/test.jsonl")),
        *(f"src/word2_games/{name}" for name in ("teams/solo.json", "teams/duo.json")),
    }
    whole = "\n".join((folder / name).read_text() for name in files)
    assert "lab/word2_games_duo-v0" in whole
    assert "class Word2GamesTasks(TaskList)" in whole
    assert "$" not in whole
    assert "PACKAGE" not in whole


@pytest.mark.parametrize("name", ["Riddles", "2cold", "a-b", "", "class", "../up", "ärger", "x" * 41])
def test_a_name_that_is_none_is_refused(tmp_path, name):
    with pytest.raises(ScaffoldError, match="wanted a Python name"):
        create(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_refused(tmp_path):
    with pytest.raises(ScaffoldError, match=r"a task of that name is registered \(marft/gsm8k_dozen-v0, "):
        create("gsm8k", tmp_path)
    for installed in ("numpy", "json", "marft"):
        with pytest.raises(ScaffoldError, match="a package of that name is installed"):
            create(installed, tmp_path)
    with pytest.raises(ScaffoldError, match="'marft' is taken by the suite"):
        create("riddles", tmp_path, "marft")
    with pytest.raises(ScaffoldError, match="wanted a word"):
        create("riddles", tmp_path, "a/b")


def test_a_folder_that_exists_here_is_no_installed_package(tmp_path, monkeypatch, capsys):
    """Python takes a folder in the working directory, where imports search too, for a package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "riddles").mkdir()
    assert main(["new", "riddles"]) == 1
    assert "riddles exists already; choose another name" in capsys.readouterr().err


def test_a_folder_that_exists_stays_as_it_is(tmp_path):
    kept = tmp_path / "riddles" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    with pytest.raises(ScaffoldError, match=r"riddles exists already; choose another name"):
        create("riddles", tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["riddles", "notes.txt"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ScaffoldError, match=r"file/word_games cannot be written \(.*\); give another --dir"):
        create("word_games", tmp_path / "file")


def test_what_fails_midway_leaves_nothing(tmp_path, monkeypatch):
    def fails(*arguments, **keywords):
        raise OSError(28, "no space left")

    monkeypatch.setattr(scaffold.runpy, "run_path", fails)
    with pytest.raises(ScaffoldError, match="no space left"):
        create("riddles", tmp_path)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------- from the command to an adapter


def _lay_environment(folder):
    """Make a virtual environment that also sees what is installed here; return its Python."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    inner = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    seen = [*site.getsitepackages(), sysconfig.get_path("purelib")]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in dict.fromkeys(seen)]
    (Path(inner) / "outer.pth").write_text("".join(lines))
    return python


def _run(command, folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "plugin" not in done.stderr  # it was loaded without a complaint
    return done.stdout


def _train_here(package, out, monkeypatch):
    """Train in this process, which has torch already, as if it had found the package's entry point."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.syspath_prepend(package / "src")
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, value)] = project["entry-points"]["marft_envs.plugins"].items()
    EntryPoint(name, value, "marft_envs.plugins").load()()
    assert main(["train", "--env", DUO, "--model", "tiny", *SMALL, "--out", str(out)]) == 0


@pytest.mark.long
def test_a_new_package_installs_is_listed_conforms_and_trains_untouched(tmp_path, monkeypatch, capsys):
    package = create("riddle_book", tmp_path)
    python = _lay_environment(tmp_path / "venv")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-build-isolation"]
    _run([*install, "-e", package], tmp_path)
    printed = _run([python, "-c", CHECK], tmp_path)
    listed, end = json.JSONDecoder().raw_decode(printed)
    assert {DUO, DUO.replace("duo", "solo")} <= {entry["id"] for entry in listed}
    assert "FAIL" not in printed[end:]
    assert " passed" in printed[end:]
    _train_here(package, tmp_path / "run", monkeypatch)
    assert "1 updates" in capsys.readouterr().out
    adapters = {path.parent.name for path in (tmp_path / "run").rglob("adapter_model.safetensors")}
    assert adapters == {"sorter_0", "writer_0"}


def test_a_plugin_with_a_game_of_its_own_trains_without_a_split(tmp_path, monkeypatch):
    """A class with keywords of its own, and no other: what the command adds by itself must not reach it."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    marft_envs.register("plug/in-v0", "tests.helpers.third_party_game:ThirdPartyGame")
    train = ["train", "--env", "plug/in-v0", "--model", "tiny", "--env-arg", "turns=1", "--out", str(tmp_path / "run")]
    assert main([*train, *SMALL]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["keywords"] == {"turns": 1}
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1
