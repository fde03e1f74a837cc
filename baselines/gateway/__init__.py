"""HTTP in front of language models on this machine: the server of `marft serve` and of programs, and its limits."""
