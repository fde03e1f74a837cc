"""Built-in task sets: mathematics and competitive programming."""
