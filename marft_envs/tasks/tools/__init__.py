"""Tool-use tasks: tools and worlds, calls, the session of a game, and the tools that each agent of a team may call.

| to ... | take |
|---|---|
| define tools and a world | `tool`, `ToolError`, `World`, `Tool`, `Toolbox`, `WorldKind` |
| define tasks | `ToolTask`, `ToolTasks`, `Goal`, `ToolLimits` |
| read and write calls | `Call`, `CallError`, `read_calls`, `read_python_calls`, `write_calls` |
| run calls | `Tool.read_arguments`, `ArgumentError`, `execute` |
| define tasks with another session | `TeamTools`, `Event`, `look_up_tool`, `not_owned`, `told_by_agent`, `unreadable` |
| compare calls, name the tool that hands over | `follows`, `HAND_OFF` |
| take over a pydantic model | `schema_of_pydantic` |

HTTP endpoints and MCP servers are tools by `connectors`.
"""

from marft_envs.tasks.tools.calls import Call, CallError, read_calls, read_python_calls, write_calls
from marft_envs.tasks.tools.definition import ArgumentError, Tool, ToolError, schema_of_pydantic, tool
from marft_envs.tasks.tools.execution import ToolLimits, execute
from marft_envs.tasks.tools.goals import Goal, follows
from marft_envs.tasks.tools.session import Event, look_up_tool, not_owned, told_by_agent, unreadable
from marft_envs.tasks.tools.tasks import TeamTools, ToolTask, ToolTasks
from marft_envs.tasks.tools.turn_taking import HAND_OFF
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
    "look_up_tool",
    "not_owned",
    "read_calls",
    "read_python_calls",
    "schema_of_pydantic",
    "told_by_agent",
    "tool",
    "unreadable",
    "write_calls",
]
