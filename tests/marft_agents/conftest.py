"""One thread per process: results do not depend on it, and machines are shared."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
