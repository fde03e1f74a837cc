"""The experiment's commands exist, finished steps are not repeated, and a run that was cut off is resumed."""

import json
import shlex

import pytest

from baselines.cli.main import build_parser
from benchmarks import sft_then_marft
from benchmarks.sft_then_marft import Budget, main, steps


def printed(capsys, *arguments):
    assert main([*arguments, "--dry-run"]) == 0
    return [shlex.split(line) for line in capsys.readouterr().out.splitlines()]


def test_every_command_parses_and_every_seed_is_compared(tmp_path, capsys):
    commands = printed(capsys, "--out", str(tmp_path / "x"))
    assert len(commands) == 3 * (3 + 3 * 4 + 3)
    parser = build_parser()
    for program, *arguments in commands:
        assert program == "marft"
        parser.parse_args(arguments)
    compared = [command for command in commands if command[1] == "compare"]
    assert [len(command[command.index("--b") : command.index("--json")]) for command in compared] == [4] * 9
    assert not (tmp_path / "x").exists()


def test_a_call_after_a_kill_does_what_is_left(tmp_path, capsys, monkeypatch):
    flags = ["--out", str(tmp_path), "--worlds", "shop", "--seeds", "0"]
    played = []

    def work(command, check):
        played.append(command[3:])
        if command[3] == "sft":
            (tmp_path / "shop/sft-0").mkdir(parents=True)
            (tmp_path / "shop/sft-0/config.json").write_text("{}")
            raise KeyboardInterrupt

    monkeypatch.setattr(sft_then_marft.subprocess, "run", work)
    with pytest.raises(KeyboardInterrupt):
        main(flags)
    assert [command[0] for command in played] == ["eval", "data", "eval", "sft"]
    left = printed(capsys, *flags)
    left = left[-(len(list(steps(tmp_path, ["shop"], [0], Budget()))) - 3) :]
    assert left[0][1:] == ["sft", "--resume", str(tmp_path / "shop/sft-0")]
    assert [command[1] for command in left[1:5]] == ["eval", "compare", "train", "eval"]


def evaluated(folder, scores):
    folder.mkdir(parents=True)
    found = {
        "accuracy": sum(scores) / len(scores),
        "scores": [[score] for score in scores],
        "cohorts": {"difficulty": [1, 1, 2, 2]},
    }
    (folder / "evaluation.json").write_text(json.dumps(found))


def test_the_record_holds_what_is_finished_and_what_it_held(tmp_path):
    shop, record = tmp_path / "shop", tmp_path / "record.json"
    evaluated(shop / "untrained", [0.0] * 4)
    evaluated(shop / "sft-0/evaluation", [1.0, 0.0, 0.0, 0.0])
    (shop / "marft-0").mkdir()
    (shop / "marft-0/metrics.jsonl").write_text('{"team/success": 0.5}\n{"team/success": 0.75}\n')
    rows = [{"cohort": None, "difference": {"mean": 0.25}}, {"cohort": {"calls": "4"}, "difference": {"mean": 1.0}}]
    (shop / "untrained-against-sft.json").write_text(json.dumps({"rows": rows}))
    record.write_text(json.dumps({"worlds": {"desk": {"success": {"sft-0": 0.1}}, "shop": {}}}))
    picture = tmp_path / "curves.png"
    flags = ["--out", str(tmp_path), "--updates", "2", "--record", str(record), "--plot", str(picture)]
    assert main(flags) == 0
    worlds = json.loads(record.read_text())["worlds"]
    assert set(worlds) == {"desk", "shop"}  # no entry for a world without results
    assert worlds["desk"] == {"success": {"sft-0": 0.1}}
    found = worlds["shop"]
    assert found["success"] == {"untrained": 0.0, "sft-0": 0.25}
    assert found["by_difficulty"]["sft-0"] == {"1": 0.5, "2": 0.0}
    assert found["training"] == {"marft-0": [0.5, 0.75]}
    assert found["compared"] == {"untrained-against-sft": rows[:1]}
    assert found["budget"]["updates"] == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
