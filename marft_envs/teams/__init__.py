"""Teams as data: profiles, a dependency between them, and the presets as JSON files."""
