"""The image of the Docker backend, and the command that makes and checks it."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from baselines.cli import sandbox
from baselines.cli.main import guarded
from marft_envs.sandbox import SandboxError, image
from marft_envs.sandbox.docker_backend import connect


def command(*words):
    parser = argparse.ArgumentParser()
    sandbox.add_actions(parser)
    arguments = parser.parse_args(words)
    return guarded(lambda: arguments.run(arguments))


def test_the_version_follows_all_that_goes_in(monkeypatch):
    version = image.image_version()
    assert version == image.image_version()
    files = image._files()
    assert {"Dockerfile", "jail/runner.py", "jail/wire.py"} <= set(files)
    assert not [name for name in files if "cache" in name]
    monkeypatch.setattr(image, "_files", lambda: files | {"jail/wire.py": files["jail/wire.py"] + b"\n"})
    assert image.image_version() != version


@pytest.fixture(scope="module")
def client():
    made = connect()
    yield made
    made.close()


@pytest.mark.docker
def test_a_build_leaves_an_image_of_this_version_and_none_of_an_older_one(client, capsys, monkeypatch):
    # From the base of the image that is here, all steps of the build are known to the engine already.
    base = "marft-sandbox-base" if client.images.list("marft-sandbox-base") else image.DEFAULT_IMAGE
    made = []
    try:
        for version in ("an older one", version_here := image.image_version()):
            with monkeypatch.context() as patch:
                patch.setattr(image, "image_version", lambda version=version: version)
                assert command("build", "--image", "marft-test", "--base", base) == 0
            made.append(client.images.get("marft-test"))
        assert made[1].labels[image.VERSION_LABEL] == version_here
        assert [found.id for found in client.images.list(all=True) if found.id in {m.id for m in made}] == [made[1].id]
    finally:
        client.images.remove("marft-test")
    assert "built marft-test" in capsys.readouterr().out


@pytest.mark.docker
def test_a_build_that_fails_says_why(capsys):
    assert command("build", "--image", "marft-test", "--base", "localhost/marft-no-such-base") == 1
    assert "marft: error: image 'marft-test': " in capsys.readouterr().err


def test_what_is_no_root_file_system_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SandboxError, match="is no root file system: it has no usr/bin"):
        image.import_rootfs(tmp_path, "marft-test")
    monkeypatch.setattr(image.shutil, "which", lambda *_, **__: None)
    with pytest.raises(SandboxError, match="apt install debootstrap"):
        image.import_rootfs(tmp_path / "new", "marft-test")
    assert not (tmp_path / "new").exists()


def fake_debootstrap(tmp_path, monkeypatch, body):
    program = tmp_path / "debootstrap"
    program.write_text(f"#!/bin/sh\nfor folder; do :; done\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setattr(image.shutil, "which", lambda *_, **__: str(program))


def test_debootstrap_is_heard_while_it_works(tmp_path, monkeypatch):
    body = 'echo "I: Retrieving Packages"\nuntil [ -e "$0.heard" ]; do sleep 0.01; done\nmkdir -p "$folder/usr/bin"'
    fake_debootstrap(tmp_path, monkeypatch, body)
    said = []

    def say(line):
        said.append(line)
        if "Retrieving" in line:
            (tmp_path / "debootstrap.heard").touch()  # it waits for this

    image._debootstrap(tmp_path / "new", "bookworm", say)
    assert said[1:] == ["I: Retrieving Packages"]
    assert (tmp_path / "new" / "usr" / "bin").is_dir()


def test_a_debootstrap_that_fails_says_why_and_leaves_nothing(tmp_path, monkeypatch):
    fake_debootstrap(tmp_path, monkeypatch, 'mkdir -p "$folder"\necho "E: no mirror" >&2\nexit 1')
    with pytest.raises(SandboxError, match="must be run as root\\):\nE: no mirror"):
        image._debootstrap(tmp_path / "new", "bookworm", lambda line: None)
    assert not (tmp_path / "new").exists()


@pytest.mark.docker
def test_an_import_says_how_far_it_is(client, tmp_path, monkeypatch):
    folder = tmp_path / "root"
    (folder / "usr" / "bin").mkdir(parents=True)
    with (folder / "large").open("wb") as file:
        file.truncate(110 * 10**6)
    said = []
    try:
        image.import_rootfs(folder, "marft-test-import", say=said.append)
        assert said[1:] == ["imported 100 MB"]
        assert client.images.list("marft-test-import")
    finally:
        client.images.remove("marft-test-import")


def test_check_prints_what_held_and_fails_where_nothing_is(capsys, monkeypatch):
    assert command("check", "--backend", "landlock") == 0
    printed = capsys.readouterr().out
    assert "landlock: 17 of 17 held" in printed
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    assert command("check", "--backend", "docker") == 1
    assert "unix:///nowhere does not answer" in capsys.readouterr().err


def test_check_fails_where_an_attack_reaches_its_goal(capsys, monkeypatch):
    rows = sandbox.run_selftest
    monkeypatch.setattr(sandbox, "run_selftest", lambda judge: [row._replace(held=False) for row in rows(judge)])
    assert command("check", "--backend", "landlock") == 1
    assert "0 of 17 held" in capsys.readouterr().out


def test_unsafe_can_not_be_attacked(capsys):
    with pytest.raises(SystemExit):
        command("check", "--backend", "unsafe")
    assert "invalid choice" in capsys.readouterr().err


def test_the_dockerfile_is_shipped():
    assert Path(image.__file__).with_name("Dockerfile").is_file()


def test_a_variable_of_the_environment_names_the_image():
    code = "from marft_envs.sandbox.image import DEFAULT_IMAGE; print(DEFAULT_IMAGE)"
    for value, image_name in (("mine", "mine"), ("", "marft-sandbox")):
        environment = os.environ | {"MARFT_SANDBOX_IMAGE": value}
        printed = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert printed.stdout.strip() == image_name
