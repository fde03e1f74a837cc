"""Backends of the judge that need no engine, for parametrised tests."""

import os
import shutil

import pytest

LOCAL = [
    pytest.param(
        "bubblewrap", marks=pytest.mark.skipif(not (shutil.which("bwrap") or os.environ.get("CI")), reason="no bwrap")
    ),
    "landlock",
]
