"""The page of all ratios reads the records of the benchmarks; the guard fails when a ratio falls."""

from __future__ import annotations

import json

import pytest

from benchmarks import regression_check as guard
from benchmarks.ratio_page import (
    main,
    of_environments,
    of_judge,
    of_judge_latency,
    of_prompt_cache,
    of_training,
)

MACHINE = {"processor": "A", "cores": 2, "system": "Linux", "flags": ["avx2"]}
WHERE = {"command": "python -m x", "commit": "abc", "machine": MACHINE}


def ratio(what, median, bound):
    return {"what": what, "repetitions": 5, "cpu": median, "low": median - 1, "high": median + 1, "bound": bound}


def judged_row(how, cpu, language="python"):
    return {"how": how, "language": language, "workers": 1, "tests": 10, "cpu_s": cpu}


TRAINING = WHERE | {
    "ratios": [ratio("update: speed against TRL", 4.0, 3.0), ratio("update: peak memory of TRL's", 2, 1)]
}
JUDGE = WHERE | {
    "rows": [
        *(judged_row("subprocess", cpu) for cpu in (1.0, 2.0, 1.0)),
        *(judged_row("judge: docker", cpu) for cpu in (0.4, 1.0, 0.6)),
        judged_row("docker run per test", 9.0),
    ]
}
TURNS = WHERE | {
    "turns": [
        {"what": what, "turns_per_cpu_s": speed}
        for what, speed in (("duo, make (AEC)", 41_000), ("duo, make (AEC)", 43_000), ("duo, bare", 90_000))
    ]
}
SECONDS = {
    ("headers", "with"): [0.4, 0.5, 0.6],
    ("headers", "without"): [1.2, 2.0, 1.2],
    ("slots", "two"): [1.0, 1.0, 1.0],
    ("slots", "one"): [1.5, 2.0, 1.0],
}
LATENCY = WHERE | {
    "rows": [
        {"what": what, "backend": "landlock", "way": way, "seconds": seconds}
        for (what, way), found in SECONDS.items()
        for seconds in found
    ]
}
KEPT = WHERE | {"cpu_seconds": {"kept": [10.0, 10.0, 20.0], "not_kept": [20.0, 24.0, 46.0]}}


def test_ratios_are_judged_by_their_targets():
    update, memory = of_training(TRAINING)
    assert (update.met, memory.met) == (True, False)
    assert memory.below
    (docker,) = of_judge(JUDGE)
    assert (docker.median, docker.low, docker.high, docker.met) == (0.5, pytest.approx(0.4), 0.6, True)
    (duo,) = of_environments(TURNS)
    assert (duo.median, duo.repetitions, duo.met) == (42.0, 2, True)
    (kept,) = of_prompt_cache(KEPT)
    assert (kept.median, kept.low, kept.high) == (2.3, 2.0, 2.4)


def test_waits_for_a_verdict_are_compared_within_a_round():
    wait, headers, slots = of_judge_latency(LATENCY)
    assert (wait.median, wait.low, wait.high, wait.met) == (0.5, 0.4, 0.6, True)
    assert (headers.median, headers.low, headers.high) == pytest.approx((3.0, 2.0, 4.0))
    assert (slots.median, slots.low, slots.high, slots.repetitions) == (1.5, 1.0, 2.0, 3)


def test_the_page_shows_every_ratio_with_machine_and_commit_and_a_picture_of_each_group(tmp_path):
    records = {"training": TRAINING, "prompt_cache": KEPT, "judge": JUDGE, "judge_latency": LATENCY, "envs": TURNS}
    for name, record in records.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    main(["--folder", str(tmp_path)])
    text = (tmp_path / "ratios.md").read_text()
    assert "| update: speed against TRL | 4.00 [3.00, 5.00] | 5 | at least 3 | yes |" in text
    assert "| docker, python, 1 at once | 0.50 [0.40, 0.60] | 3 | at most 0.5 | yes |" in text
    assert text.count("| abc | A, 2 cores, avx2, Linux |") == len(records)
    assert len(list(tmp_path.glob("ratios_*.png"))) == text.count("\n## ") == 7


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"training\.json"):
        main(["--folder", str(tmp_path)])


def test_the_guard_names_what_fell_below_its_share():
    committed = {"machine": MACHINE, "ratios": {"updates": [4.0, 5.0, 6.0], "turns": [1.0]}}
    found = {"updates": [3.8], "turns": [0.9], "new": [0.1]}
    assert guard.compare(found, committed, MACHINE) == ["updates: 3.80, wanted at least 0.8 of the committed 5.00"]
    assert guard.compare(found, committed, MACHINE | {"processor": "B"}) == []
    assert len(guard.compare({"updates": [2.4]}, committed, MACHINE | {"processor": "B"})) == 1


def test_the_guard_exits_with_1_when_a_ratio_fell(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(guard, "RECORD", tmp_path / "guard.json")
    monkeypatch.setattr(guard, "measured", lambda *_: {"updates": [5.0]})
    with pytest.raises(SystemExit):
        guard.main([])
    assert "--record writes guard.json" in capsys.readouterr().err
    assert guard.main(["--record"]) == 0
    assert guard.main([]) == 0
    monkeypatch.setattr(guard, "measured", lambda *_: {"updates": [2.0]})
    assert guard.main([]) == 1
    assert "slower than committed: updates: 2.00" in capsys.readouterr().err


def test_turns_are_measured_beside_a_loop_of_the_interpreter():
    (found,) = guard.turns(1)
    assert 0.001 < found < 1
