"""Hypothesis draws the same examples in every run; the profile `random` draws others, by --hypothesis-seed."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A machine may be slow or busy: no time limit for an example, and none for drawing it.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _PATIENT, derandomize=True)
settings.register_profile("random", _PATIENT, derandomize=False, max_examples=300, database=None, print_blob=True)
settings.load_profile("same")
