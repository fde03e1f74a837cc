"""Sampling of actions: sampling parameters and log-probs, KV cache, continuous batching."""
