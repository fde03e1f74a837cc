"""Sampling of actions: parameters and log-probabilities, KV cache, continuous batching."""
