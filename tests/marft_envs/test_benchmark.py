from __future__ import annotations

import json

from baselines.benchmarks import envs


def test_the_benchmark_measures_every_view(tmp_path):
    envs.main(["--seconds", "0.01", "--json", str(tmp_path / "envs.json")])
    found = json.loads((tmp_path / "envs.json").read_text(encoding="utf-8"))
    assert {row["what"].split(", ")[2] for row in found["turns"]} == {
        "bare", "make (AEC)", "TurnParallel", "SharedPolicyEnv"
    }  # fmt: skip
    assert all(row["turns_per_cpu_s"] > 0 for row in found["turns"])
    assert found["import"]["torch"] is False
