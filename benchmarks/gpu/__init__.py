"""End-to-end GPU benchmark of team training: `python -m benchmarks.gpu` (`make bench-gpu`)."""
