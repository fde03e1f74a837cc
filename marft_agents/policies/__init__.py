"""Policies that act for agents: language models, scripts, remote endpoints, external samplers."""
