"""Monitoring: statistics of actions, and alarms on the history of metrics."""
