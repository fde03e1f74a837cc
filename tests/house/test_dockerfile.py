"""The Dockerfile of the trainer: its arguments, its user, its context; the real build is slow."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
import uuid

import pytest

from tests.house.house_pages import ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
INSTRUCTIONS = [
    tuple(line.split(maxsplit=1)) for line in TEXT.replace("\\\n", " ").splitlines() if line and line[0] != "#"
]
ARGUMENTS = dict((*text.split("=", 1), "")[:2] for word, text in INSTRUCTIONS if word == "ARG")


def test_the_base_is_an_argument_and_each_stage_is_of_it():
    assert INSTRUCTIONS[0] == ("ARG", f"BASE={ARGUMENTS['BASE']}")
    stages = [text.split() for word, text in INSTRUCTIONS if word == "FROM"]
    assert stages == [["${BASE}", "AS", "python"], ["python", "AS", "build"], ["python"]]


def test_arguments_of_pip_reach_the_build_stage_alone():
    """Arguments are in the history of an image: an index with a password must not be in that of the last stage."""
    words = " ".join(word for word, _ in INSTRUCTIONS)
    assert "ARG" not in words.rpartition("FROM")[2]
    assert {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "TORCH_INDEX_URL"} <= ARGUMENTS.keys()
    assert not any(ARGUMENTS[name] for name in ARGUMENTS if name.endswith("_URL"))


def test_its_extras_and_its_model_are_those_of_the_project():
    assert set(ARGUMENTS["EXTRAS"].split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert re.search(rf"^{ARGUMENTS['MODEL']}==", pins, re.MULTILINE)


def test_it_does_not_run_as_root():
    (name,) = [text for word, text in INSTRUCTIONS if word == "USER"]
    made = next(text for word, text in INSTRUCTIONS if word == "RUN" and "useradd" in text)
    uid = int(re.search(rf"useradd --uid (\d+) .*\b{name} ", made)[1])
    assert uid > 1000
    entry = json.loads(next(text for word, text in INSTRUCTIONS if word == "ENTRYPOINT"))
    assert entry == ["marft"]


def test_the_context_has_what_the_build_needs_and_nothing_else():
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    packages = {name.removesuffix("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    needed = {"pyproject.toml", "constraints.txt", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert {line[1:] for line in lines if line.startswith("!")} == packages | needed
    assert "*" in lines


@pytest.mark.slow
@pytest.mark.docker
def test_the_image_is_built_and_trains(tmp_path):
    """MARFT_TRAINER_BUILD holds more flags of `docker build`, such as --build-arg BASE=... where no registry is."""
    image = f"marft-trainer-test-{uuid.uuid4().hex[:8]}"
    more = shlex.split(os.environ.get("MARFT_TRAINER_BUILD", ""))
    (tmp_path / "runs").mkdir(mode=0o777)
    (tmp_path / "runs").chmod(0o777)
    play = ["docker", "run", "--rm", "--network", "none", "-v", f"{tmp_path / 'runs'}:/runs", image]
    game = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories", "--model", "tiny"]
    small = ["--updates", "1", "--groups", "2", "--group-size", "2", "--max-new-tokens", "4"]
    try:
        subprocess.run(["docker", "build", "-q", *more, "-t", image, str(ROOT)], check=True)
        subprocess.run([*play, "train", *game, *small, "--out", "duo"], check=True)
        who = subprocess.run(
            [*play[:-1], "--entrypoint", "id", image, "-u"], check=True, capture_output=True, text=True
        )
        assert int(who.stdout) > 1000
    finally:
        subprocess.run(["docker", "image", "rm", "--force", image], check=False, capture_output=True)
    assert (tmp_path / "runs/duo/checkpoints/update-00001/actor_0/adapter_model.safetensors").is_file()
