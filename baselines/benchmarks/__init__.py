"""Measurements behind the figures in README and docs; each module is a command."""
