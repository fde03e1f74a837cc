"""Precompiled C++ headers outside the image: made once, read by builds in the jail, and never needed."""

import shutil
import stat
import subprocess
from dataclasses import replace

import pytest

from marft_envs.sandbox import Judge, Test
from marft_envs.sandbox.compiled_headers import CompiledHeaders
from marft_envs.sandbox.host_machine import make_folder
from marft_envs.sandbox.languages import LANGUAGES, add_language
from tests.marft_envs.sandbox.judge_backends import LOCAL

COMPILER = shutil.which("g++")
BUILD = " ".join(LANGUAGES["c++17"].build)
PROGRAM = "#include <bits/stdc++.h>\nint main() { std::cout << std::max(1, 2); }"


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    headers = CompiledHeaders(COMPILER, tmp_path_factory.mktemp("headers"))
    headers.compile(BUILD)
    return headers


def compiler_that_fails(folder):
    compiler = folder / "g++"
    compiler.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/calls"\nexit 1\n')
    compiler.chmod(0o755)
    return compiler


def test_only_what_a_command_uses_is_compiled_and_everybody_may_read_it(headers):
    files = [path for path in headers.path.rglob("*") if path.is_file()]
    assert [str(path.relative_to(headers.path)) for path in files] == ["c++17/bits/stdc++.h.gch"]
    assert all(path.stat().st_mode & stat.S_IROTH for path in (headers.path, *headers.path.rglob("*")))


def test_it_is_compiled_once(headers):
    before = (headers.path / "c++17/bits/stdc++.h.gch").stat()
    headers.compile(BUILD)
    CompiledHeaders(COMPILER, headers.path.parent).compile(BUILD)
    after = (headers.path / "c++17/bits/stdc++.h.gch").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_python_needs_none(tmp_path):
    headers = CompiledHeaders(COMPILER, tmp_path)
    headers.compile(" ".join(LANGUAGES["python"].build))
    assert not list(headers.path.iterdir())


@pytest.mark.parametrize("backend", LOCAL)
def test_builds_in_the_jail_read_it(backend, monkeypatch):
    compiler, *flags = LANGUAGES["c++17"].build
    monkeypatch.setattr("marft_envs.sandbox.languages.LANGUAGES", dict(LANGUAGES))
    # -H lists every header that is read; a compiled one that is used stands behind an exclamation mark
    add_language(replace(LANGUAGES["c++17"], name="traced", build=(compiler, "-H", *flags)))
    with Judge(backend=backend, workers=1) as judge:
        judgement = judge.run(PROGRAM, language="traced", tests=[Test(b"", b"2")])
    assert judgement.verdict == "OK"
    assert "! " in judgement.compile_output
    assert "c++17/bits/stdc++.h.gch" in judgement.compile_output


def test_a_failure_is_said_once_and_programs_compile_all_the_same(tmp_path, caplog):
    headers = CompiledHeaders(str(compiler_that_fails(tmp_path)), tmp_path)
    headers.compile(BUILD)
    headers.compile(BUILD)
    compilations = [line for line in (tmp_path / "calls").read_text().splitlines() if "-std" in line]
    assert len(compilations) == 1
    assert not list(headers.path.rglob("*.gch"))
    assert "were not compiled" in caplog.text


def test_the_folder_of_somebody_else_is_refused(tmp_path):
    place = CompiledHeaders(COMPILER, tmp_path).path
    place.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place.symlink_to(elsewhere)
    with pytest.raises(OSError, match="not a folder of this user"):
        CompiledHeaders(COMPILER, tmp_path)


def test_the_compiled_header_gives_the_same_program(headers, tmp_path):
    (tmp_path / "main.cpp").write_text(PROGRAM)
    made = {}
    for name, places in (("with", str(headers.path)), ("without", str(tmp_path / "none"))):
        words = [word.replace("{c++}", COMPILER).replace("{headers}", places) for word in LANGUAGES["c++17"].build]
        (tmp_path / "build").mkdir(exist_ok=True)
        subprocess.run(words, cwd=tmp_path, check=True)
        made[name] = (tmp_path / "build/main").read_bytes()
    assert made["with"] == made["without"]


@pytest.mark.parametrize("backend", LOCAL)
def test_a_folder_that_a_cleaner_removed_is_not_missed(backend, monkeypatch, request):
    parent = make_folder("compiled-headers-test")  # other than `tmp_path`, jails may enter it
    request.addfinalizer(lambda: shutil.rmtree(parent))
    headers = CompiledHeaders(COMPILER, parent)
    monkeypatch.setattr("marft_envs.sandbox.local_backends.compiled_headers", lambda compiler: headers)
    with Judge(backend=backend, workers=1, self_test=False) as judge:
        judge.run("print(1)", tests=[Test(b"", b"1")])
        shutil.rmtree(headers.path)
        for number in (2, 3):
            assert judge.run(f"print({number})", tests=[Test(b"", b"%d" % number)]).verdict == "OK"
        assert judge.run(PROGRAM, language="c++17", tests=[Test(b"", b"2")]).verdict == "OK"
