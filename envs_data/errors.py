"""The one error of data: embedded sets raise it, and `marft_envs.data` for everything else it reads."""


class DataError(ValueError):
    """Data that is missing or not what it should be, as one line.

    Args:
        where: The place, as file:line, file: row N, or the name of the source.
        found: What is there.
        wanted: What should be there.
        action: What the reader can do about it.
    """

    def __init__(self, where: str, found: str, wanted: str, action: str) -> None:
        super().__init__(f"{where}: found {found}, wanted {wanted}; {action}")
        self.where = where
        self.found = found
        self.wanted = wanted
        self.action = action

    def __reduce__(self) -> tuple[type["DataError"], tuple[str, str, str, str]]:
        """Pickle by the four parts, so that the error crosses process borders whole."""
        return DataError, (self.where, self.found, self.wanted, self.action)
