"""Training scripts for our environments with other RL libraries, each in the library's own idiom.

`python -m baselines.third_party.run` makes a virtual environment per group of libraries and runs all scripts. To run
one script alone, install its library: `python -m baselines.third_party.sb3_ppo --game cheap_talk-v1 --steps 8000`.
"""
