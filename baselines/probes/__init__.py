"""Probe games: the smallest tasks that need a team, or one ability of it."""
