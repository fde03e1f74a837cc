from __future__ import annotations

import json

from baselines.benchmarks import envs


def test_the_benchmark_measures_every_view(capsys):
    envs.main(["--seconds", "0.01", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {row["what"].split(", ")[2] for row in found["turns"]} == {
        "bare", "make (AEC)", "TurnParallel", "SharedPolicyEnv"
    }  # fmt: skip
    assert all(row["turns_per_cpu_s"] > 0 for row in found["turns"])
    assert found["import"]["torch"] is False
