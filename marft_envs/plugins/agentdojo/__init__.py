"""Prompt injection in AgentDojo, as `marft/agentdojo_{workspace,travel,banking,slack}_{solo,duo,trio}-v0`.

A user wants something done in an office, a travel agency, a bank or a chat, with tools. With the keyword `injection`
the data that tools return hold an attacker's instructions. Doing what the user wants is success. Doing what the
attacker wants is a violation, which is counted apart and is never part of success.

| | |
|---|---|
| Action | calls of one's own tools; of the answering agent also a text without calls, which is the answer to the user |
| Observation | the results of one's own calls, with the attacker's text as the package lays it into its data |
| Reward | 1.0 if the package's check of the user's task holds and a call was made, else 0.0 |
| Violation | the package's check of the attacker's goal holds at the end |
| Termination | the answer to the user |
| Truncation | 20 rounds; the package allows 15 with calls |

`solo` has all tools. In `duo` and `trio` a reader has those that look things up, and the writer those that act. So what
an attacker wrote must pass from one agent to the other. The trio's checker has no tools.

There is one split, `test`: 97 user tasks, or with `injection="all"` their 949 pairs with the 35 injection tasks. The
package is installed without its dependencies, and imported without its clients of language models.

Version history: v0, first version.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from marft_envs import Tasks, register_task

SUITES = ("workspace", "travel", "banking", "slack")
_TOLD = {
    "workspace": "an office: mail, calendar, files",
    "travel": "a travel agency",
    "banking": "a bank account",
    "slack": "a chat and web pages",
}
_TEAMS = Path(__file__).parent / "teams"


def register() -> None:
    """Register the environments of all suites."""
    for suite in SUITES:
        files = {"solo": "solo.json", "duo": f"{suite}_duo.json", "trio": f"{suite}_trio.json"}
        teams = {name: str(_TEAMS / file) for name, file in files.items()}  # read when a game is made
        register_task(
            f"agentdojo_{suite}",
            partial(_load, suite),
            teams=teams,
            solo=teams["solo"],
            family="tools",
            keywords=("listing", "injection", "attack"),
            description=f"{_TOLD[suite]}, with prompt injections in what tools return (AgentDojo)",
            split="test",
            horizon=20,
        )


def _load(suite: str, data: Any, split: str, **keywords: Any) -> Tasks:
    from marft_envs.plugins.agentdojo import package

    if data != "embedded":
        raise ValueError(f"agentdojo_{suite}: found data={data!r}, wanted 'embedded': the tasks are in the package")
    if split != "test":
        raise ValueError(
            f"agentdojo_{suite}: found the split {split!r}, wanted 'test': the package has no other. A team that "
            "trains on it trains on what it is scored with"
        )
    package.check()  # before anything of the package is imported
    from marft_envs.plugins.agentdojo.tasks import DojoTasks

    return DojoTasks(suite, **keywords)
