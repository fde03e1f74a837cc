"""Command line: the `marft` command, one module per subcommand."""
