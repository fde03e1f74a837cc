"""Build of the documentation site; part of the repository, not of the wheel."""
