"""Unsafe backend: plain processes under resource limits without isolation, for trusted programs only.

A program can read and delete your files, reach the network, and leave processes behind.
"""

from __future__ import annotations

import warnings

from marft_envs.sandbox.landlock_backend import LandlockBackend


class UnsafeBackend(LandlockBackend):
    """Backend without isolation; never selected automatically."""

    name = "unsafe"
    isolation = "none"

    def __init__(self) -> None:
        warnings.warn(
            'backend="unsafe" isolates nothing: judged programs can do whatever you can; trust them as your own',
            RuntimeWarning,
            stacklevel=4,
        )
        super().__init__()

    def _options(self, index: int) -> list[str]:
        return []
