"""Error of base models, apart from what needs torch."""


class ModelError(ValueError):
    """A model name or folder that cannot be loaded; states the finding and the fix."""
