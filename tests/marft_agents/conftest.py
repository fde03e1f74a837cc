"""One thread per process: results do not depend on it, and machines are shared."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/fakes.py
torch.set_num_threads(1)
