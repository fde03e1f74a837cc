"""`marft eval --canaries PLACE --max-leak-rate X`, and what `marft compare` says of two such evaluations."""

from __future__ import annotations

import json

import pytest

from baselines.cli.main import main

PLAY = ["eval", "--env", "marft/profile_holders2-v0", "--policy", "scripted", "--limit", "2"]
# The scripted holder says all that its own text of the round says, and nothing of its system prompt.


@pytest.mark.parametrize(("place", "rate"), [("round", 1.0), ("system", 0.0)])
@pytest.mark.parametrize("most", ["0", "0.5", "1"])
def test_the_gate_sets_the_exit_code(tmp_path, capsys, place, rate, most):
    out = tmp_path / "out"
    code = main([*PLAY, "--canaries", place, "--max-leak-rate", most, "--out", str(out)])
    assert code == int(rate > float(most))
    told = capsys.readouterr().out
    assert (f"failed: the leak rate is 1, wanted at most {most}" in told) == bool(code)
    record = json.loads((out / "evaluation.json").read_text())
    assert record["leaks"]["team"]["rate"] == rate
    assert record["leak"] == [[rate], [rate]]
    assert record["settings"]["canaries"] == place
    assert record["leaks"]["agents"]["holder_0"]["passed_on"] == 2, "the needed clue"


def test_without_secrets_the_gate_cannot_be_decided(tmp_path, capsys):
    played = ["eval", "--env", "marft/gsm8k_solo-v0", "--policy", "scripted", "--limit", "1"]
    assert main([*played, "--max-leak-rate", "0", "--out", str(tmp_path / "out")]) == 1
    assert "no episode has a secret; plant some with --canaries" in capsys.readouterr().err
    record = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert (record["leaks"], record["leak"]) == (None, None)


@pytest.mark.parametrize("share", ["-0.1", "1.1", "nan", "x"])
def test_a_gate_that_is_no_share_is_bad_usage(share, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*PLAY, f"--max-leak-rate={share}"])
    assert stopped.value.code == 2
    assert "wanted a share from 0 to 1" in capsys.readouterr().err


def test_compare_takes_the_difference_of_the_leak_rates(tmp_path, capsys):
    for place in ("round", "system"):
        assert main([*PLAY, "--canaries", place, "--out", str(tmp_path / place)]) == 0
    sides = ["compare", str(tmp_path / "system"), str(tmp_path / "round"), "--allow-different", "canaries"]
    assert main([*sides, "--fail-if", "leaks > 0"]) == 1
    told = capsys.readouterr().out
    assert "failed: leaks > 0: the difference B - A is 1" in told
    assert "episodes in which a secret leaked: A 0.0%, B 100.0%" in told
