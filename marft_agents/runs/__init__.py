"""Training runs: the loop, checkpoints, rollback, run folder, evaluation and validation."""
