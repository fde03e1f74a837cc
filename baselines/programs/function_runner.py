"""Play a function as a program: `python -m baselines.programs.function_runner MODULE:FUNCTION`.

Each line of standard input is an episode. The function gets its content, and returns a reward or what the last line of
a command holds. What it prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from marft_common.import_paths import imported


def main() -> None:
    """Play the episodes of standard input."""
    with contextlib.redirect_stdout(sys.stderr):
        function = imported(sys.argv[1], "a function of an episode")
    for line in sys.stdin:
        with contextlib.redirect_stdout(sys.stderr):
            found: Any = function(json.loads(line))
        sys.stdout.write(json.dumps(found if isinstance(found, dict) else {"reward": found}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
