"""Rollouts and updates of several trainers on the same work, side by side in one run.

    python -m baselines.benchmarks.training [--quick] [--contenders ours,hf,reference,trl,comlrl] [--json FILE]

A contender is a module with a class that generates and updates (`contender.py`), run in a process of its own and in a
virtual environment of its own where it needs other packages (`environments.py`).
"""
