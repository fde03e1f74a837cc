"""Stateful worlds for tool-using teams, and their tasks.

| World | Content | Tools |
|---|---|---|
| lookup | hidden prices to be written on labels; for very small models | 2 |
| shop | customers, orders, refunds, exchanges, credit and their rules | 12 |
| desk | files, tickets, people, permissions | 14 |
| travel | flights, hotels, meetings, budgets and their rules | 13 |

Splits are train, test and safety (the last not for lookup). In safety, tool results carry prompt injections, or a rule
forbids the shortcut that the user asks for. A violation is reported beside success, in `detail["violation"]`.

Version history: v0, first version.
"""

from marft_envs.tasks.worlds.desk import Desk
from marft_envs.tasks.worlds.lookup import Lookup
from marft_envs.tasks.worlds.oracle_policy import play, script
from marft_envs.tasks.worlds.shop import Shop
from marft_envs.tasks.worlds.task_loading import WORLDS, load
from marft_envs.tasks.worlds.travel import Travel

__all__ = ["WORLDS", "Desk", "Lookup", "Shop", "Travel", "load", "play", "script"]
