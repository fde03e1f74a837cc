"""Backends of the judge that need no engine, for parametrised tests."""

import os
import shutil

import pytest

needs_bubblewrap = pytest.mark.skipif(not (shutil.which("bwrap") or os.environ.get("CI")), reason="no bwrap")
LOCAL = [pytest.param("bubblewrap", marks=(needs_bubblewrap, pytest.mark.attacks)), "landlock"]
