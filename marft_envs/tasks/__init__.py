"""Kinds of tasks: mathematics, competitive programming, recall, shards, profile, and tools in stateful worlds."""
