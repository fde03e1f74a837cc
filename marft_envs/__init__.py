"""Environments of MARFT."""
