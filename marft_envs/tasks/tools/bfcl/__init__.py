"""The Berkeley Function Calling Leaderboard (BFCL v4), read from the files of the optional package `bfcl-eval`.

Single-turn categories are `simple_python` (the default), `multiple`, `parallel`, `parallel_multiple`, `irrelevance` and
five of real users, `live_simple`, ... A task is a question with its right calls, or with none, and takes one round.
`multi_turn_base` has several requests in turn and stateful classes that are really called; it takes up to 40 rounds.

| | |
|---|---|
| Answer | the calls in the last answering agent's action; in multi-turn, those of all agents with functions |
| Reward | 1.0 if all is right, else 0.0; `reward="outcome"`: in multi-turn the share of the requests that were met |
| Termination | the calls are graded; in multi-turn the first request that is not met, or the last one, is graded |

There is one split, `test`. The package is installed without its dependencies:
`pip install --no-deps bfcl-eval==2026.3.23`.

Version history: v0, first version.
"""
