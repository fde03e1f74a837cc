"""Error of external samplers, apart from what needs torch."""


class SamplerError(RuntimeError):
    """An engine that cannot sample for this team, or not with its sampling parameters; states the fix."""
