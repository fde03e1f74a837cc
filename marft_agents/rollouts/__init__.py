"""Rollouts of PettingZoo AEC environments: many games side by side, dynamic sampling, branching."""
