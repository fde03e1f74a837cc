"""What a team costs on a GPU, measured end to end: `python -m baselines.benchmarks.gpu` (`make bench-gpu`)."""
