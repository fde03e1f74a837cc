"""Benchmark of teams against one agent at equal tokens: `marft bench`.

| module | does |
|---|---|
| `plan` | reads a plan and refuses what cannot be run |
| `cells` | lists the trainings and cells of a plan |
| `arms` | trains teams and plays the arms |
| `controls` | the controls: anonymous roles, shuffled teammates, majority vote |
| `run` | runs a plan with worker processes; resumes after any kill |
| `table` | tables from records alone |
"""
