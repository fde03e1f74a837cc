"""Kinds of tasks: mathematics, competitive programming, recall, shards, and tools in stateful worlds."""
