"""Benchmark of LLM trainers: rollouts and updates of several trainers on the same workload, in one run.

    python -m benchmarks.training [--quick] [--contenders ours,hf,reference,trl,comlrl] [--json FILE]

A contender is a module with a function `load`, which returns its phases. Each contender runs in a separate process
(`contender_process.py`, `worker.py`). Contenders with other dependencies use a virtual environment
(`virtual_environment.py`).
"""
