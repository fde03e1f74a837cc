"""Generators of the documentation site and of the environments' pages; run from a checkout, not in the wheel."""
