"""Files in the formats of the published sets: our own, in `original_formats`, and the published ones where they are.

Our own hold problems of ours, so every clone has them. The published ones are looked for in the folder that the
variable MARFT_ORIGINALS names, else in `shared/data` beside the repository; where they are, tests run on them too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

OWN = Path(__file__).parent / "original_formats"
PUBLISHED = Path(os.environ.get("MARFT_ORIGINALS", Path(__file__).parents[3] / "shared" / "data"))
KINDS = {"math": "math_train", "gsm8k": "gsm8k_train", "aime": "aime_2024", "cmath": "cmath_dev"}


def files(*names: str) -> list[Any]:
    """Return the parameters of a test: our own file of each name, and the published one if it is there."""
    found = [pytest.param(OWN / f"{name}.jsonl", id=f"own-{name}") for name in names]
    paths = [PUBLISHED / f"{name}.jsonl" for name in names]
    return found + [pytest.param(path, id=f"published-{path.stem}") for path in paths if path.is_file()]


def published(name: str) -> Path:
    """Return a published file; leaves the test out where it is not there."""
    path = PUBLISHED / name
    if not path.is_file():
        pytest.skip(f"needs the published {name}; set MARFT_ORIGINALS to its folder")
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]
