"""Benchmarks behind the numbers in README and docs: run each module from a checkout with `python -m`."""
