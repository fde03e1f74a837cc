"""Statistics, comparisons and tables of what experiments wrote."""
