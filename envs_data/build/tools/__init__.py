"""Tool-use tasks for teams, with one set per world of `marft_envs.tasks.worlds`.

A row holds the user's request, the whole database at the start of the game, the goal, and the calls of a reference
script. The goal lists every field that must change; no other field may change. Goals follow from the rules of each
world and not from running its tools; a test runs the calls and compares.
"""
