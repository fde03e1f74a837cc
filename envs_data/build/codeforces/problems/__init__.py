"""Problems with two files each: `SLUG.md` (statement, checker, solutions) and `SLUG.py` (test inputs).

`SLUG.md` holds the data for contestants and judges; `envs_data.build.codeforces.problem_file` parses it.

| function of `SLUG.py` | purpose |
|---|---|
| `small(rng)` | Generate a small input, for comparison with a slow solution and as one of the tests. |
| `tests(rng)` | Yield inputs of edge cases, random inputs and the largest ones. |
| `validate(read)` | Check the constraints of the statement; called on every input. |
"""
