"""End-to-end GPU benchmark of team training: `python -m baselines.benchmarks.gpu` (`make bench-gpu`)."""
