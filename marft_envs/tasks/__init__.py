"""Tasks: their protocol (`base`), mathematics, competitive programming, and tools in stateful worlds."""
