"""Environments of other packages, registered as a third party would: through `register_task` in a plugin.

Importing `marft_envs` registers their ids and imports none of the packages. A game whose package is missing raises an
`ImportError` with the command that installs it.

| module | package | ids |
|---|---|---|
| `reasoning` | reasoning-gym 0.1.25 | `marft/reasoning_{generator}_{solo,duo,trio}-v0` |
| `plancraft` | plancraft 0.4.9 | `marft/plancraft_{solo,duo}-v0` |
| `textworld` | textworld-express 1.1.0, Java | `marft/textworld_{game}_{solo,duo}-v0` |
| `agentdojo` | agentdojo 0.1.35 | `marft/agentdojo_{suite}_{solo,duo,trio}-v0` |
"""
