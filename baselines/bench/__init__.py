"""Benchmark of teams against one agent at equal tokens: `marft bench`.

| module | does |
|---|---|
| `plan` | reads a plan and refuses what cannot be run |
| `units` | lists the trainings and cells (evaluations of one arm) of a plan |
| `run_unit` | trains a team, or plays an arm |
| `controls` | the controls: anonymous roles, shuffled teammates, majority vote |
| `run` | runs a plan with worker processes; resumes after any kill |

`baselines.results.tables` makes tables from records alone.
"""
