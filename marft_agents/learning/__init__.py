"""Learner: advantages, objectives, critic and the update of all algorithms."""
