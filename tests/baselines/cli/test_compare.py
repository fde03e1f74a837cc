"""`marft compare`: numbers worked by hand, the gate, refusals, where evaluations are found."""

import json
import math
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.cli.compare import read_gate
from baselines.cli.main import main
from baselines.results.comparison import ComparisonError, compare, find_evaluation, read_side
from baselines.results.statistics import paired_difference

LEVELS = [1, 1, 1, 1, 2, 2, 2, 2]


def record(scores):
    """Return an evaluation of eight scenarios; one score or None each, or a row per scenario."""
    rows = [row if isinstance(row, list) else [row] for row in scores]
    return {
        "env": "marft/gsm8k_duo-v0",
        "settings": {"horizon": 1, "feedback": "none"},
        "law": {"temperature": 0.0},
        "max_turns": 100,
        "checkpoint": None,
        "scores": rows,
        "tokens": [[None if value is None else 10.0 for value in row] for row in rows],
        "scenario_checksum": "sha256:one",
        "cohorts": {"level": LEVELS, "subject": ["x"] * 8},
    }


@pytest.fixture
def evaluation(tmp_path):
    def write(name, values, **changes):
        path = tmp_path / name / "evaluation.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record(values) | changes), encoding="utf-8")
        return str(path.parent)

    return write


@pytest.fixture
def sides(evaluation):
    return evaluation("a", [0, 0, 0, 0, 1, 1, 0, 0]), evaluation("b", [1, 1, 1, 0, 0, 0, 0, 0])


def test_rows_of_all_scenarios_and_of_each_cohort(sides, tmp_path, capsys):
    file = tmp_path / "out.json"
    assert main(["compare", *sides, "--json", str(file)]) == 0
    found = json.loads(file.read_text(encoding="utf-8"))
    whole, easy, hard = found["rows"]
    assert [row["cohort"] for row in found["rows"]] == [None, {"level": "1"}, {"level": "2"}], "subject has one value"
    assert (whole["a"], whole["b"], whole["difference"]["mean"]) == (0.25, 0.375, 0.125)
    assert (easy["scenarios"], easy["difference"]["mean"], hard["difference"]["mean"]) == (4, 0.75, -0.5)
    assert easy["p_adjusted"] == pytest.approx(2 * easy["difference"]["p_value"]), "Holm: the smaller p of two"
    assert whole["p_adjusted"] == whole["difference"]["p_value"]
    assert found["means"]["tokens"] == {"a": 10, "b": 10}
    shown = capsys.readouterr().out
    for text in ("level=1", "0.750", "-0.500", "tokens per episode: A 10.0, B 10.0", "failed episodes: A 0, B 0"):
        assert text in shown
    assert "one training seed on each side" in shown
    assert "violations" not in shown


def test_training_seeds_are_the_outer_level(evaluation, tmp_path):
    rows = [[1, 0, 1, 0, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1, 0, None]]
    a = evaluation("untrained", [0, 0, 0, 1, 0, 0, 0, 0])
    for seed, row in enumerate(rows):
        evaluation(f"b-{seed}", row)
    file = tmp_path / "out.json"
    assert main(["compare", "--a", a, "--b", str(tmp_path / "b-*"), "--json", str(file)]) == 0
    found = json.loads(file.read_text(encoding="utf-8"))["rows"][0]["difference"]
    b = [[math.nan if value is None else value for value in row] for row in rows]
    assert found == paired_difference([[0, 0, 0, 1, 0, 0, 0, 0]], b)._asdict()
    assert found["seeds"] == 3


def test_evaluation_seeds_are_averaged_within_a_scenario(evaluation):
    a = evaluation("a", [[0, 0]] * 8)
    b = evaluation("b", [[1, 0], [1, None], [None, None], *[[0, 0]] * 5])
    found = compare(read_side([a], "A"), read_side([b], "B"))
    whole = found.rows()[0]
    assert whole.difference.mean == pytest.approx(1.5 / 7), "0.5 and 1 of seven scored scenarios"
    assert found.totals()["failed_episodes"] == {"a": 0, "b": 3}
    assert found.difference("failures").mean == pytest.approx(1.5 / 8)


def test_violations_are_compared_where_they_are_recorded(evaluation, capsys):
    a = evaluation("a", [1] * 8, violation=[[0]] * 8)
    b = evaluation("b", [1] * 8, violation=[[1]] * 2 + [[0]] * 6)
    assert main(["compare", a, b, "--fail-if", "violations > 0.2"]) == 1
    assert "violations per episode: A 0.000, B 0.250" in capsys.readouterr().out
    without = evaluation("c", [1] * 8)
    assert main(["compare", a, without, "--fail-if", "violations > 0.2"]) == 1
    assert "violations: not recorded by all evaluations" in capsys.readouterr().err


# ------------------------------------------------------------------ gate


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("success < -0.02", 0),
        ("success < 0.2", 1),
        ("success<.2", 1),
        ("success > 1e-1", 1),
        ("success >= 0.125", 1),
        ("success > 0.125", 0),
        ("success level=2 < -0.02", 1),
        ("success level=1 < -0.02", 0),
        ("success.low < -0.02", 1),
        ("success.high <= 2", 1),
        ("success.high < 0", 0),
        ("success subject=x < 0.2", 1),
        ("tokens > 0", 0),
        ("tokens >= 0", 1),
        ("failures > 0", 0),
    ],
)
def test_the_gate_sets_the_exit_code(sides, capsys, condition, code):
    assert main(["compare", *sides, "--fail-if", condition]) == code
    shown = capsys.readouterr().out
    assert (f"failed: {condition}: the difference B - A is" in shown) == bool(code)


def test_any_gate_fails_and_says_why(sides, capsys):
    assert main(["compare", *sides, "--fail-if", "success < -1", "--fail-if", "success level=2 < -0.02"]) == 1
    assert "failed: success level=2 < -0.02: the difference B - A is -0.5; whole: -0.500 [" in capsys.readouterr().out


@pytest.mark.parametrize(
    "condition",
    [
        *("", "success", "success <", "success < x", "success = 0", "success == 0", "accuracy < 0", "success < nan"),
        *("success < 1 or True", "success.mean < 0", "level=2 < 0", "success level < 0", "success level= < 0"),
        *("success < 1e999", "__import__('os') < 0", "success < 0; success > 0", "success level=2 subject=x<0<1"),
    ],
)
def test_bad_conditions_are_bad_usage(sides, capsys, condition):
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *sides, "--fail-if", condition])
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert repr(condition) in err
    assert "wanted METRIC [COHORT=VALUE] OPERATOR NUMBER" in err


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["<", "<=", ">", ">="]))
def test_conditions_with_any_number_are_read(number, operator):
    gate = read_gate(f" tokens.high subject='three addends' {operator} {number} ")
    assert (gate.metric, gate.end, gate.operator, gate.bound) == ("tokens", "high", operator, number)
    assert gate.cohort == ("subject", "three addends")


def test_an_infinite_end_is_null_in_json(evaluation, tmp_path):
    a, b = evaluation("a", [1, *[None] * 7]), evaluation("b", [1, *[None] * 7])
    file = tmp_path / "out.json"
    assert main(["compare", a, b, "--fail-if", "tokens.high > 5", "--json", str(file)]) == 1, "one pair tells nothing"
    assert json.loads(file.read_text(encoding="utf-8"), parse_constant=pytest.fail)["gates"][0]["value"] is None


def test_unknown_cohorts_are_named(sides, capsys):
    assert main(["compare", *sides, "--fail-if", "success grade=2 < 0"]) == 1
    assert "no cohort 'grade'; there are: level, subject" in capsys.readouterr().err
    assert main(["compare", *sides, "--fail-if", "success level=3 < 0"]) == 1
    assert "no scenario has level=3; there are: 1, 2" in capsys.readouterr().err


def test_a_gate_on_nothing_fails(evaluation, capsys):
    a, b = evaluation("a", [None] * 8), evaluation("b", [1] * 8)
    assert main(["compare", a, b]) == 0
    capsys.readouterr()
    assert main(["compare", a, b, "--fail-if", "success < -1"]) == 1
    assert "cannot be decided: no scenario was scored on both sides" in capsys.readouterr().err


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenario_checksum": "sha256:two"}, "played other scenarios (checksums sha256:one and sha256:two)"),
        ({"scenario_checksum": None}, "records no checksum of its scenarios; evaluate again"),
        ({"settings": {"horizon": 3, "feedback": "none"}}, "horizon is 1 and 3. Evaluate alike"),
        ({"settings": {"horizon": 1, "feedback": "verdict"}}, "feedback is 'none' and 'verdict'"),
        ({"law": {"temperature": 1.0}}, "temperature is 0.0 and 1.0"),
        ({"max_turns": 7}, "max_turns is 100 and 7"),
        ({"versions": {"math-verify": "0.8"}}, "math-verify is None and '0.8'"),
        (
            {"env": "marft/gsm8k_solo-v0", "settings": {"horizon": 1, "feedback": "verdict"}},
            "allow it with --allow-different env,feedback",
        ),
        ({"tokens": [[1]]}, "one row per scenario is wanted in each"),
        ({"cohorts": {"level": [1]}}, "one row per scenario is wanted in each"),
        ({"scores": "x"}, "scores: wanted a number or null"),
        ({"scores": []}, "scores: found the shape (0,)"),
    ],
)
def test_evaluations_that_cannot_be_compared_are_refused(evaluation, capsys, changes, message):
    a, b = evaluation("a", [0] * 8), evaluation("b", [0] * 8, **changes)
    assert main(["compare", a, b]) == 1
    assert message in capsys.readouterr().err


def test_settings_may_be_allowed_to_differ(evaluation, capsys):
    a = evaluation("a", [0] * 8)
    b = evaluation("b", [0] * 8, settings={"horizon": 3, "feedback": "verdict"})
    assert main(["compare", a, b, "--allow-different", "horizon"]) == 1
    assert "feedback is" in capsys.readouterr().err
    assert main(["compare", a, b, "--allow-different", "horizon", "--allow-different", "feedback"]) == 0
    assert main(["compare", a, b, "--allow-different", "horizon,feedback"]) == 0
    capsys.readouterr()
    assert main(["compare", a, b, "--allow-different", "horizn"]) == 1
    assert "--allow-different horizn: no such setting; there are env, feedback, horizon" in capsys.readouterr().err


def test_sides_that_are_no_sides_are_refused(evaluation, capsys):
    a, b, c = (evaluation(name, [0] * 8) for name in "abc")
    for arguments, message in [
        ([a], "wanted two sides: A B, or --a PATH... --b PATH..."),
        ([a, b, c], "wanted two sides: A B, or --a PATH"),
        ([a, b, "--a", c], "wanted two sides: A B, or --a PATH"),
        (["--a", a], "wanted two sides: A B, or --a PATH"),
        (["--a", a, a, "--b", b], "is named twice; each training seed counts once"),
        (["--a", a + "-*", "--b", b], "side A: nothing matches"),
    ]:
        assert main(["compare", *arguments]) == 1
        assert message in capsys.readouterr().err
    more = [evaluation(name, [0] * 8) for name in ("d", "e")]
    assert main(["compare", "--a", a, b, "--b", c, *more]) == 1
    assert "side A has 2 evaluations and side B 3" in capsys.readouterr().err


def test_a_checkpoint_counts_once(evaluation):
    paths = [evaluation(name, [0] * 8, checkpoint="/r/checkpoints/update-00002") for name in "ab"]
    with pytest.raises(ComparisonError, match="two evaluations of the checkpoint /r/checkpoints/update-00002"):
        read_side(paths, "A")


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is not JSON"), ("{}", "it has no scores"), ("[]", "it has no scores")]
)
def test_files_that_are_no_evaluation_are_refused(tmp_path, text, message):
    (tmp_path / "evaluation.json").write_text(text, encoding="utf-8")
    with pytest.raises(ComparisonError, match=message):
        read_side([str(tmp_path)], "A")


# ------------------------------------------------------------------ where evaluations are


@pytest.fixture
def trained(tmp_path):
    """A run of three updates whose best is the second."""
    run = tmp_path / "run"
    for update in (1, 2, 3):
        folder = run / "checkpoints" / f"update-{update:05d}"
        folder.mkdir(parents=True)
        (folder / "state.json").write_text("{}", encoding="utf-8")
    (run / "checkpoints" / "best").symlink_to("update-00002", target_is_directory=True)
    (run / "config.json").write_text(json.dumps({"env": "marft/gsm8k_duo-v0"}), encoding="utf-8")
    return run


def evaluated(run, name, update):
    file = run / name / "evaluation.json"
    file.parent.mkdir(parents=True)
    checkpoint = str(run / "checkpoints" / f"update-{update:05d}")
    file.write_text(json.dumps(record([0] * 8) | {"checkpoint": checkpoint}), encoding="utf-8")
    return file


def test_a_run_stands_for_the_newest_evaluation_of_its_newest_checkpoint(trained):
    evaluated(trained, "second", 2)
    old, new = evaluated(trained, "third", 3), evaluated(trained, "evaluations/again", 3)
    os.utime(old, (1, 1))
    assert find_evaluation(str(trained)) == new
    os.utime(new, (0, 0))
    assert find_evaluation(str(trained)) == old


def test_other_checkpoints_are_named(trained):
    second, first = evaluated(trained, "second", 2), evaluated(trained, "first", 1)
    assert find_evaluation(f"{trained}@best") == second
    assert find_evaluation(f"{trained}@update-00001") == first
    assert find_evaluation(str(trained / "checkpoints" / "best")) == second
    assert find_evaluation(str(trained / "checkpoints" / "update-00001")) == first
    assert find_evaluation(str(first)) == first


def test_a_run_without_an_evaluation_says_how_to_make_one(trained, tmp_path):
    with pytest.raises(ComparisonError) as refused:
        find_evaluation(f"{trained}@best")
    flags = f"--checkpoint {trained}@update-00002 --out {trained}/evaluation-update-00002"
    assert f"marft eval --env marft/gsm8k_duo-v0 {flags}" in str(refused.value)
    with pytest.raises(ComparisonError, match="no checkpoint 'update-00009'; there are update-00001, update-00002"):
        find_evaluation(f"{trained}@update-00009")
    with pytest.raises(ComparisonError, match="there is no such evaluation, run or checkpoint"):
        find_evaluation(str(tmp_path / "nothing"))
    with pytest.raises(ComparisonError, match="neither an evaluation"):
        find_evaluation(str(tmp_path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ComparisonError, match="no complete checkpoint"):
        find_evaluation(str(tmp_path / "empty"))


def test_comparing_loads_no_torch(sides):
    code = "import sys; from baselines.cli.main import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "compare", *sides], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
