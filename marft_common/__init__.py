"""Modules that `marft_envs` and `marft_agents` share; the two never import each other.

| module | holds |
|---|---|
| `running_game` | one game of any PettingZoo AEC environment; exceptions become its failure |
| `parallel_games` | many games side by side, steps in background threads, environments used again |
| `atomic_files` | files that appear whole or not at all |
| `deadline` | one time limit for a whole exchange with a server; HTTP requests under it |
| `user_settings` | TOML files and environment variables of users |
| `hand_off_runs` | runs and loops of hand-offs |
| `import_paths` | functions named as `module:function` |
"""
