"""The problems, two files each: `SLUG.md` (statement, checker, solutions) and `SLUG.py` (its tests).

`SLUG.md` is what a contestant and a judge see; `envs_data.build.codeforces.problem` reads it. `SLUG.py` holds

- `small(rng)`: a small input, for comparison with a slow solution and as one of the tests;
- `tests(rng)`: the inputs of edge cases, random ones and the largest ones;
- `validate(read)`: the constraints of the statement, checked on every input.
"""
