"""Functions named by import path: found in the working directory too, and every mistake is named."""

import sys

import pytest

from marft_common.import_paths import imported


def test_a_function_and_an_attribute_of_a_class_are_found():
    assert imported("math:fsum", "a function")([1, 2]) == 3.0
    assert imported("pathlib:Path.cwd", "a function")


def test_the_working_directory_is_searched_last(tmp_path, monkeypatch):
    (tmp_path / "marft_own_term.py").write_text("def half(episode): return 0.5\n")
    (tmp_path / "math.py").write_text("raise RuntimeError('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert imported("marft_own_term:half", "a function")(None) == 0.5
    assert sys.path[-1] == str(tmp_path)
    assert imported("math:fsum", "a function")([1]) == 1.0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("math", "found 'math', wanted a function of the Episode as MODULE:FUNCTION"),
        ("math:", "wanted a function"),
        ("a b:c", "wanted a function"),
        ("no_such_module_here:f", "no_such_module_here cannot be imported .ModuleNotFoundError.*; install it"),
        ("no_such_package.terms:f", r"'no_such_package'\); install it, or start in the folder of its file$"),
        ("math:summ", "math has no summ"),
        ("math:pi", "'math:pi' is float, wanted a function of the Episode"),
    ],
)
def test_a_mistake_is_named(path, message):
    with pytest.raises(ValueError, match=message):
        imported(path, "a function of the Episode")


def test_the_package_that_an_own_module_misses_is_not_taken_for_that_module(tmp_path, monkeypatch):
    (tmp_path / "marft_term_that_imports.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"No module named 'no_such_package'\)$"):
        imported("marft_term_that_imports:f", "a function")


def test_a_module_that_raises_is_named(tmp_path, monkeypatch):
    (tmp_path / "marft_broken_term.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"marft_broken_term cannot be imported .ZeroDivisionError: division by zero"):
        imported("marft_broken_term:f", "a function")
