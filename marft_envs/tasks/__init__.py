"""Kinds of tasks: mathematics, competitive programming, recall, and tools in stateful worlds."""
