"""Level the process-id counter between submissions, to close it as a covert channel."""

from .spawn import Forked

STRIDE = 256  # ids for one submission: its tests, its threads


class Pids:
    """The counter of process ids.

    Which id comes next tells how many processes and threads there were before. After each submission the counter is
    taken on to the same place, so it tells how many submissions there were, and nothing of what they did.

    Args:
        spawner: Starts something that takes the next id and ends.
    """

    def __init__(self, spawner: Forked) -> None:
        self._spawner = spawner
        self._start = spawner.take_pid()

    def level(self) -> None:
        """Take the counter on to where the next submission begins.

        Raises:
            OSError: It is beyond, since a submission used more, or has begun again: this jail cannot be used again.
        """
        goal = self._start + STRIDE
        pid = self._spawner.take_pid()
        while self._start < pid < goal:
            pid = self._spawner.take_pid()
        if pid != goal:
            raise OSError(f"process ids: found {pid}, wanted {goal} at the most: another jail is needed")
        self._start = goal
