"""One process at a time writes to a results folder, and a dead one keeps none."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys

import pytest

from marft_agents.runs.folder_lock import LOCK_FILE, RunFolderError, owned
from marft_agents.runs.run_folder import RunFolder, check_free
from tests.helpers.folder_owner import owner


def test_a_second_process_is_refused_until_the_first_one_is_killed(tmp_path):
    with owner(tmp_path / "run") as first:
        machine = socket.gethostname()
        told = rf"{tmp_path}/run is written by process {first.pid} on machine {machine} since \d{{4}}-\S+ \S+; wait"
        for write in (lambda: owned(tmp_path / "run").__enter__(), lambda: RunFolder(tmp_path / "run", {})):
            with pytest.raises(RunFolderError, match=told):
                write()
        with pytest.raises(RunFolderError, match=told):
            check_free(tmp_path / "run")
        assert [path.name for path in (tmp_path / "run").iterdir()] == [LOCK_FILE]
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert (tmp_path / "run" / LOCK_FILE).exists()  # whose owner is gone
        with owned(tmp_path / "run"):
            pass


def test_children_of_a_killed_owner_keep_nothing(tmp_path):
    with owner(tmp_path / "run", "--with-children") as first:
        first.kill()
        first.wait()
        try:
            assert len(first.children) == 2
            assert all(os.path.exists(f"/proc/{pid}") for pid in first.children)
            with owned(tmp_path / "run"):
                pass
        finally:
            for pid in first.children:
                os.kill(int(pid), signal.SIGKILL)


def test_the_machine_of_the_owner_is_named(tmp_path):
    with (
        owner(tmp_path, "node-7.cluster") as first,
        pytest.raises(RunFolderError, match=rf"process {first.pid} on machine node-7\.cluster since"),
        owned(tmp_path),
    ):
        pass


def test_an_owner_may_own_again_and_others_may_own_what_is_inside(tmp_path):
    with owned(tmp_path / "run"):
        with owned(tmp_path / "run"), owned(tmp_path / "run" / "own"):
            check_free(tmp_path / "other" / ".." / "run")
        with owner(tmp_path / "run" / "evaluation"):
            pass
        refused = subprocess.run(
            [sys.executable, "-c", f"from tests.helpers.folder_owner import main; main({str(tmp_path / 'run')!r})"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert f"is written by process {os.getpid()} " in refused.stderr  # owned still, after the inner block
    with owner(tmp_path / "run"):
        pass


def test_a_run_owns_its_folder_until_it_is_closed_or_lost(tmp_path):
    records = RunFolder(tmp_path, {})
    RunFolder(tmp_path, {}).close()  # beside it in the same process
    assert (tmp_path / LOCK_FILE).exists()
    records.close()
    assert not (tmp_path / LOCK_FILE).exists()
    records = RunFolder(tmp_path, {})
    del records
    with owner(tmp_path):
        pass


def test_nothing_is_left_of_a_folder_without_results(tmp_path):
    with owned(tmp_path / "a" / "b"):
        pass
    assert list(tmp_path.iterdir()) == []
    with owned(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "result").touch()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["result"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_is_said_once(tmp_path, monkeypatch, number):
    def refuse(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match=f"{tmp_path}: its file system has no locks: see to it") as caught:
        records = RunFolder(tmp_path, {})
    with owned(tmp_path):
        records.log(0, {"x": 1.0}, [])
    records.close()
    assert len(caught) == 1
    assert (tmp_path / "metrics.jsonl").read_text()


def test_another_error_of_the_lock_is_one(tmp_path, monkeypatch):
    def fail(file, operation):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(RunFolderError, match=r"cannot be made or written \(Input/output error\)"), owned(tmp_path):
        pass


def test_a_lock_file_that_its_owner_removed_meanwhile_locks_nothing(tmp_path, monkeypatch):
    lock, real = tmp_path / LOCK_FILE, fcntl.flock

    def late(file, operation):
        if not late.done:
            late.done = True
            lock.unlink()
        real(file, operation)

    late.done = False
    monkeypatch.setattr(fcntl, "flock", late)
    with owned(tmp_path), lock.open() as again, pytest.raises(BlockingIOError):
        real(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_link_in_a_folder_of_others_leads_nowhere(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK_FILE).symlink_to(tmp_path / "mine")
    with pytest.raises(RunFolderError, match=r"cannot be made or written \(Too many levels of symbolic links\)"):
        check_free(tmp_path / "run")
    assert (tmp_path / "mine").read_text() == "mine"
