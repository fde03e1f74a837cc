"""The optional package agentdojo: its version, and the hash of the files that decide how its tasks are played."""

from __future__ import annotations

from envs_data.packages import Package

PACKAGE = Package(
    "agentdojo",
    "agentdojo",
    "0.1.35",
    "pip install 'marft[agentdojo]' && pip install --no-deps agentdojo==0.1.35",
    needs=("deepdiff", "docstring_parser", "email_validator", "pydantic", "rich", "typing_extensions", "yaml"),
)
FILES = (
    "*.py",
    "agent_pipeline/*.py",
    "attacks/*.py",
    "default_suites/**/*.py",
    "task_suite/*.py",
    "data/**/*.yaml",
)
SHA256 = "bd21b7aa35cff33f467dcbd8a76220fd60b8d07e839cfcad1997a54e2e2a3f59"


def check() -> None:
    """Require the package in its version, and its files.

    Raises:
        PackageError: It is missing, or another.
    """
    PACKAGE.checked_folder(FILES, SHA256)
