"""Environments of MARFT: text games of LLM teams (Flex-MG), for PettingZoo and Gymnasium.

Importing this package registers `marft/{math,gsm8k,aime,cmath,codeforces,tools}_{solo,duo,...,dozen}-v0`
with both libraries. Codeforces also has `-v1`, its newest. `recall` has the smaller teams, `shards` and `profile`
have their own. The environments of installed plugins are registered, too.
The import loads neither torch nor a grader, a judge, tools or data. Public names load their module on first use.

    import marft_envs

    env = marft_envs.make("marft/math_duo-v0")
    env.reset(seed=0)
    for agent in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()
        env.step(None if termination or truncation else my_policy(observation.messages))

| folder | holds |
|---|---|
| `game` | Flex-MG: the game loop, written once for all tasks; turns and episodes; protocol of tasks; team reward |
| `dependency` | the dependency function D: its kinds, the plan of a round, drawings |
| `communication` | forms: the part of an action that an edge of D carries |
| `teams` | profiles, teams, the presets |
| `tasks` | mathematics, programming, recall, shards, profile, tools, worlds |
| `records` | replay of an episode, files, OpenTelemetry |
| `registration` | registry, `make`, the environments of the suite, plugins |
| `rollout` | many games side by side |
| `data` | readers of data sets |
| `grading`, `graders` | the grader of mathematics; graders of any answer |
| `sandbox` | the judge of programs |
| `plugins` | worlds of other packages, registered as those of third parties |
| `wrappers`, `bridges`, `testing` | other interfaces; other ecosystems; the conformance kit |
"""

from importlib import metadata

import lazy_loader

from marft_envs.registration.builtin import register_builtin
from marft_envs.registration.registry import load_plugins

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = metadata.version("marft")

register_builtin()
load_plugins(importing=True)
