"""Training runs: training loop, checkpoints, rollback, run folder, evaluation and validation."""
