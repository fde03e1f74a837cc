"""Task sets that come with the suite."""
