"""A test that needs more than the project installs has the mark that leaves it out where that is missing."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.house.house_pages import ROOT

_MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
LEFT_OUT = re.findall(r"and not (\w+)", re.search(r"^define LEAVE_OUT$(.+?)^endef$", _MAKEFILE, re.M | re.S)[1])


def _named(value):
    """Yield the backends that a parameter names, also inside of lists and dictionaries."""
    if isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _named(one)
    elif isinstance(value, str) and value in LEFT_OUT:
        yield value


def test_no_parameter_names_a_backend_without_its_mark(collected):
    """`make test` leaves out the marks of what a machine lacks; a bare "docker" would fail there, and nowhere in CI."""
    if collected is None:  # this file alone was asked for: look at the whole suite, which takes half a minute
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "names_a_backend_without"]
        done = subprocess.run([*command, "tests"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return
    with_parameters = [item for item in collected if hasattr(item, "callspec")]
    named = [(name, item) for item in with_parameters for name in set(_named(item.callspec.params))]
    assert {name for name, _ in named} >= {"docker", "bubblewrap"}  # or this looks in the wrong place
    assert [f"{item.nodeid}: pytest.mark.{name}" for name, item in named if not item.get_closest_marker(name)] == []
