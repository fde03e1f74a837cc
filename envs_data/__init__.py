"""Part of MARFT."""
