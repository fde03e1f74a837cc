"""Algorithms of other libraries in our environments: one short script each, in the library's own idiom.

`python -m baselines.third_party.run` makes a virtual environment per library and runs all scripts; one script alone
needs its library installed: `python -m baselines.third_party.sb3_ppo --game cheap_talk --steps 8000`.
"""
