"""Modules that `marft_envs` and `marft_agents` share; the two never import each other.

| module | holds |
|---|---|
| `moved_modules` | redirection of old import paths |
"""
