"""The root that programs get: copies in memory, of what they need and nothing else, which they cannot leave."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path

import pytest

from marft_envs.sandbox import Judge, Test, host_machine
from marft_envs.sandbox.host_machine import find_runtime
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.runtime_files import fill
from tests.marft_envs.sandbox.jail_client import NOBODY, SYSTEM_PYTHON, JailClient, needs_root
from tests.marft_envs.sandbox.judge_backends import BUBBLEWRAP, DOCKER

LOOK = "import os\nprint(*sorted(os.listdir('/')), os.getcwd(), *sorted(os.listdir('.')), *sorted(os.listdir('/dev')))"


@pytest.fixture
def tree(tmp_path):
    """Folders and links of a machine, in `tmp_path/machine`, and an empty root for programs."""
    for name in ("usr/lib/python3/json.py", "usr/lib/python3/test/large.py", "usr/lib/python3/sub/a.cpython.opt-1.pyc"):
        path = tmp_path / "machine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "machine/usr/lib/python3/json.py").chmod(0o600)
    (tmp_path / "machine/lib").symlink_to("usr/lib")
    (tmp_path / "machine/usr/lib/current").symlink_to("../lib/python3")
    (tmp_path / "machine/usr/lib/whole").symlink_to(tmp_path / "machine/usr/lib/current")
    (tmp_path / "root").mkdir()
    return tmp_path


def test_a_copy_keeps_the_links_on_the_way_and_leaves_test_suites_out(tree):
    root = str(tree / "root")
    fill(root, [f"{tree}/machine/lib/whole", f"{tree}/machine/lib/whole/json.py"])
    copied = tree / "root" / str(tree / "machine")[1:]
    assert sorted(path.name for path in copied.rglob("*") if not path.is_dir() or path.is_symlink()) == [
        "current",
        "json.py",
        "lib",
        "whole",
    ]
    assert [os.readlink(copied / name) for name in ("lib", "usr/lib/current")] == ["usr/lib", "../lib/python3"]
    assert os.readlink(copied / "usr/lib/whole") == f"{tree}/machine/usr/lib/current"
    json = copied / "usr/lib/python3/json.py"
    original = tree / "machine/usr/lib/python3/json.py"
    assert (json.read_text(), json.stat().st_mode & 0o777) == (original.read_text(), 0o644)
    assert json.stat().st_mtime_ns == original.stat().st_mtime_ns  # or its bytecode would be made anew each time


@needs_root
def test_the_interpreter_and_all_its_modules_work_on_copies_alone(tmp_path):
    fill(str(tmp_path), find_runtime(SYSTEM_PYTHON))
    program = (
        "import ctypes, glob, os, sys, zoneinfo\n"
        "names = glob.glob(os.path.dirname(os.__file__) + '/lib-dynload/*.so')\n"
        "for name in names: __import__(os.path.basename(name).split('.')[0])\n"
        "ctypes.CDLL('libstdc++.so.6'); zoneinfo.ZoneInfo('Europe/Berlin'); print(len(names) > 9)"
    )
    command = ["chroot", str(tmp_path), os.path.realpath(SYSTEM_PYTHON), "-ISWignore", "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("True\n", "")


@needs_root
@pytest.mark.parametrize("use_native", [False, True], ids=["forked", "native"])
def test_both_ways_to_start_a_program_give_it_its_root(use_native):
    with JailClient("uid", native=use_native, root=True) as jail:
        assert jail.hello()[1] == use_native
        jail.put("main.py", LOOK.encode())
        words = (SYSTEM_PYTHON, "-I", "-S", "main.py")
        found = jail.run(*words).stdout.decode().split()
        assert {"usr", "box"} <= set(found)
        assert not {"proc", "sys", "tmp", "home", "root"} & set(found)
        assert found[-2:] == ["/box", "main.py"]
        assert b" proc " in jail.run(*words, kind=wire.KIND_BUILD).stdout  # a build keeps ours
        result = jail.run("/bin/sh", "-c", "true")  # of neither: it keeps our root
        assert (result.status, result.exit_status) == (0, 0), result.stderr


def test_a_box_outside_of_the_root_is_refused(tmp_path):
    with JailClient("none", options=["--isolation", "none", "--root", str(tmp_path)]) as jail:
        assert f"wanted a folder in the root {tmp_path} of programs" in jail.last_words()


@needs_root
@pytest.mark.parametrize("use_native", [False, True], ids=["forked", "native"])
def test_no_capability_of_the_runner_reaches_a_program(use_native):
    """In a user namespace the runner has one to change roots, and its uid is not root's: exec would hand it on."""
    user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    wrapper = ["setpriv", *user, "--inh-caps", "+sys_chroot", "--ambient-caps", "+sys_chroot"]
    kept = "[line.split()[1] for line in open('/proc/self/status') if line[:6] in ('CapEff', 'CapPrm', 'CapAmb')]"
    with JailClient("none", native=use_native, wrapper=wrapper) as jail:
        jail.hello()
        status = Path(f"/proc/{jail.process.pid}/status").read_text()
        assert int(status.split("CapAmb:")[1].split()[0], 16) == 1 << 18
        assert jail.run(SYSTEM_PYTHON, "-I", "-S", "-c", f"print(*{kept})").stdout.split() == [b"0" * 16] * 3


@pytest.mark.parametrize("judge", [DOCKER, BUBBLEWRAP], indirect=True)
def test_programs_see_copies_in_memory_and_four_devices(judge):
    found = judge.run(LOOK, tests=[Test(b"", b"")]).tests[0].output.decode().split()
    assert set(found[: found.index("/box")]) <= {"usr", "lib", "lib64", "etc", "dev", "box", "marft"}
    assert found[-4:] == ["null", "random", "urandom", "zero"]
    uses = "open('/dev/null', 'w').write('x'); print(len(open('/dev/urandom', 'rb').read(8)))"
    assert judge.run(uses, tests=[Test(b"", b"8")]).verdict == "OK"


@pytest.mark.bubblewrap
def test_without_a_file_system_in_memory_bubblewrap_judges_and_says_what_stays_open(monkeypatch, caplog):
    monkeypatch.setattr(host_machine, "_IN_MEMORY", ("/nowhere", "/proc"))
    with caplog.at_level(logging.WARNING), Judge(backend="bubblewrap", workers=1) as judge:
        assert judge.run("print(1)", tests=[Test(b"", b"1")]).verdict == "OK"
        program = "#include <iostream>\nint main() { std::cout << 1; }"
        assert judge.run(program, "c++", tests=[Test(b"", b"1")]).verdict == "OK"
    assert "no tmpfs where programs may execute files" in caplog.text
