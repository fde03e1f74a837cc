"""Lets tests import `fakes`; the root comes first, since the folders here are named as the packages are."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[place]) for place in (2, 1)]
