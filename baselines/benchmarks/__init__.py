"""Benchmarks behind the numbers in README and docs; each module or package is a command."""
