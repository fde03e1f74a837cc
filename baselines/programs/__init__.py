"""Agent programs as environments: they ask the team through an OpenAI-compatible server and report a reward."""

ENVIRONMENT = "baselines.programs.environment:program/team-v0"
"""Id of the environment of a program."""
