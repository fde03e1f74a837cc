"""The line of the user's own code behind an error."""

import os
import runpy

import pytest

from marft_common.user_code import shown, user_line


def error_of(path):
    with pytest.raises(ZeroDivisionError) as caught:
        runpy.run_path(str(path))
    # Without this test's own frame, which a user would not have.
    return caught.value.with_traceback(caught.value.__traceback__.tb_next)


def test_the_innermost_line_outside_of_libraries_is_named(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text("import statistics\ndef half(n):\n    return statistics.mean(1 / n for _ in [0])\nhalf(0)\n")
    monkeypatch.chdir(tmp_path)
    assert user_line(error_of(file)).startswith("mine.py:3, in ")


def test_an_error_of_libraries_alone_names_no_line():
    with pytest.raises(TypeError) as caught:
        os.fspath(3)
    assert user_line(caught.value.with_traceback(None)) == ""


def test_folders_outside_of_the_working_directory_are_not_told(tmp_path, monkeypatch):
    inside = tmp_path / "here"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert shown(str(tmp_path / "secret" / "mine.py")) == "mine.py"
    assert shown(str(inside / "tasks" / "mine.py")) == os.path.join("tasks", "mine.py")
    inside.rmdir()
    assert shown(str(tmp_path / "mine.py")) == "mine.py"
