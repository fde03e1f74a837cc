"""Experiments: their configuration, environments, players, training and evaluation."""
