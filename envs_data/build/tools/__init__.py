"""Tasks for teams that use tools: one set for each world of `marft_envs.worlds`.

A row holds what the user asks for, the whole database as it is when the game begins, the goal (every field
that must have changed, and nothing else may), and the calls of a reference script. The goals are written down
here from the rules of each world, not by running its tools; a test runs the calls and compares.
"""
