"""Ledger of written files: content and place, nothing from a copied folder, no harm where it cannot be kept."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from marft_common import written_files


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_file_is_known_by_its_content_and_its_place(tmp_path, state):
    file = tmp_path / "run" / "config.json"
    assert not written_files.entered(file, b"{}")
    written_files.enter(file, b"{}")
    file.parent.mkdir()
    file.write_bytes(b"{}")
    assert written_files.entered(file, b"{}")
    assert not written_files.entered(file, b"{ }")
    (tmp_path / "link").symlink_to(file.parent)
    assert written_files.entered(tmp_path / "link" / "config.json", b"{}")
    shutil.copytree(file.parent, tmp_path / "copy")
    assert not written_files.entered(tmp_path / "copy" / "config.json", b"{}")
    assert (state / "marft" / "written_files").stat().st_mode & 0o077 == 0
    assert [path.name for path in file.parent.iterdir()] == ["config.json"]


def test_an_entry_is_one_line_and_is_written_once(tmp_path, state):
    odd = tmp_path / 'a\nb "c"' / "config.json"
    for _ in range(3):
        written_files.enter(odd, b"x")
    lines = written_files.ledger().read_bytes().splitlines()
    assert len(lines) == 1
    forged = tmp_path / "run\n" / f"{lines[0].decode()}"
    written_files.enter(forged, b"y")
    assert len(written_files.ledger().read_bytes().splitlines()) == 2


def _enter(folder: str, number: int) -> None:
    for each in range(20):
        written_files.enter(Path(folder) / f"{number}-{each}", b"x" * 10)


def test_processes_at_the_same_time_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_enter, args=(str(tmp_path), number)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(
        written_files.entered(tmp_path / f"{number}-{each}", b"x" * 10) for number in range(4) for each in range(20)
    )


@pytest.mark.parametrize("given", ["", "relative/state"])
def test_the_default_is_below_the_home(tmp_path, monkeypatch, given):
    monkeypatch.setenv("XDG_STATE_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert written_files.ledger() == tmp_path / ".local" / "state" / "marft" / "written_files"


def test_without_a_writable_state_folder_nothing_is_known(tmp_path, monkeypatch):
    (tmp_path / "state").write_text("a file")
    written_files.enter(tmp_path / "config.json", b"{}")
    assert not written_files.entered(tmp_path / "config.json", b"{}")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user id without an entry
    written_files.enter(tmp_path / "config.json", b"{}")
    assert not written_files.entered(tmp_path / "config.json", b"{}")
