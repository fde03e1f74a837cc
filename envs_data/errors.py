"""Error for invalid data, raised by embedded sets and by `marft_envs.data`."""


class DataError(ValueError):
    """Missing or invalid data, described in one line.

    Args:
        where: Location, as file:line, file: row N, or the name of the source.
        found: Description of the data found.
        wanted: Description of the data expected.
        action: Advice for the user.
    """

    def __init__(self, where: str, found: str, wanted: str, action: str) -> None:
        super().__init__(f"{where}: found {found}, wanted {wanted}; {action}")
        self.where = where
        self.found = found
        self.wanted = wanted
        self.action = action

    def __reduce__(self) -> tuple[type["DataError"], tuple[str, str, str, str]]:
        """Pickle by the four parts, so that the error survives the transfer between processes."""
        return DataError, (self.where, self.found, self.wanted, self.action)
