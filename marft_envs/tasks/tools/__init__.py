"""Tool-use tasks: tools and worlds, calls, the session of a game, and the tools that each agent of a team may call.

| to ... | take |
|---|---|
| define tools and a world | `tool`, `ToolError`, `World`, `Tool`, `Toolbox`, `WorldKind` |
| define tasks | `ToolTask`, `ToolTasks`, `Goal`, `ToolLimits` |
| read and run calls | `Call`, `CallError`, `read_calls`, `read_python_calls`, `ArgumentError`, `execute` |
| define tasks with another session | `TeamTools`, `Event`, `hand_over`, `not_owned`, `told_of`, `unreadable` |
| compare calls, name the tool that hands over | `follows`, `HAND_OFF` |
| take over a pydantic model | `of_pydantic` |

HTTP endpoints and MCP servers are tools by `connectors`.
"""

from marft_envs.tasks.tools.call import Call, CallError
from marft_envs.tasks.tools.calls import read_calls
from marft_envs.tasks.tools.execution import ToolLimits, execute
from marft_envs.tasks.tools.goals import Goal, follows
from marft_envs.tasks.tools.handoff_dependency import HAND_OFF
from marft_envs.tasks.tools.python_calls import read_python_calls
from marft_envs.tasks.tools.schema import ArgumentError, of_pydantic
from marft_envs.tasks.tools.session import Event, hand_over, not_owned, told_of, unreadable
from marft_envs.tasks.tools.task import ToolTask
from marft_envs.tasks.tools.task_set import ToolTasks
from marft_envs.tasks.tools.team_bound_tasks import TeamTools
from marft_envs.tasks.tools.tool import Tool, ToolError, tool
from marft_envs.tasks.tools.world import Toolbox, World, WorldKind

__all__ = [
    "HAND_OFF",
    "ArgumentError",
    "Call",
    "CallError",
    "Event",
    "Goal",
    "TeamTools",
    "Tool",
    "ToolError",
    "ToolLimits",
    "ToolTask",
    "ToolTasks",
    "Toolbox",
    "World",
    "WorldKind",
    "execute",
    "follows",
    "hand_over",
    "not_owned",
    "of_pydantic",
    "read_calls",
    "read_python_calls",
    "told_of",
    "tool",
    "unreadable",
]
