"""Records of runs and evaluations: returns, reward terms, own terms, tool statistics, cohorts, exported episodes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch  # noqa: F401 - else the first command says that it loads it

import marft_envs
from baselines.cli.main import main
from baselines.experiment.cohorts import CohortError, Cohorts, cohort_scores
from marft_agents.intervals import wilson
from marft_common.installation import pip_install
from marft_envs.game.episode import Episode
from marft_envs.records.files import read_episodes
from marft_envs.records.replay import replay

ENV = ["--env", "marft/tools_duo-v0", "--data", "embedded:lookup", "--horizon", "2"]
REWARD = ["--reward", '{"completion": 1, "steps": -0.1}', "--reward-term", "turns=marft_test_terms:turns:-0.25"]
SMALL = ["--model", "tiny", "--groups", "2", "--group-size", "2", "--max-new-tokens", "4", "--device", "cpu"]
TERMS = """
def turns(episode):
    return len(episode.turns)

def empty(episode):
    return float("nan") if episode.task_id else 0.0
"""


@pytest.fixture(scope="module", autouse=True)
def terms(tmp_path_factory):
    """Put a module of terms where flags find it."""
    folder = tmp_path_factory.mktemp("terms")
    (folder / "marft_test_terms.py").write_text(TERMS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory, terms):
    out = tmp_path_factory.mktemp("runs") / "run"
    validation = ["--validate-every", "1", "--validate-on", "test:2"]
    assert main(["train", *ENV, *REWARD, *SMALL, *validation, "--updates", "1", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, trained):
    out = tmp_path_factory.mktemp("evaluations") / "evaluation"
    arguments = ["--checkpoint", str(trained), "--limit", "4", "--seeds", "0,1", "--temperature", "0.9"]
    assert main(["eval", *ENV, *REWARD, *arguments, "--out", str(out)]) == 0
    return out


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# ------------------------------------------------------------------ reward terms


def test_metrics_hold_the_mean_return_and_every_term(trained):
    [metrics] = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    episodes = [json.loads(line) for line in (trained / "episodes.jsonl").read_text().splitlines()]
    assert metrics["team/return"] == pytest.approx(np.mean([episode["return"] for episode in episodes]))
    for name in ("completion", "steps", "turns"):
        told = [episode["game"]["terms"][name] for episode in episodes]
        assert metrics[f"team/term_{name}"] == pytest.approx(np.mean(told))
    assert metrics["team/term_turns"] == 2.0
    weighed = metrics["team/term_completion"] - 0.1 * metrics["team/term_steps"] - 0.25 * metrics["team/term_turns"]
    assert metrics["team/return"] == pytest.approx(weighed)
    assert metrics["validation/term_turns"] == metrics["validation_before/term_turns"] == 2.0
    assert metrics["validation/return"] == pytest.approx(-0.1 - 0.5)


def test_tensorboard_shows_them_too(trained):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(trained))
    board.Reload()
    assert {"team/return", "team/term_turns", "team/handoff_loops", "reader_0/handoff_loops"} <= set(
        board.Tags()["scalars"]
    )


def test_an_evaluation_holds_them_and_its_tool_statistics(evaluated):
    record = json.loads((evaluated / "evaluation.json").read_text())
    assert record["terms"] == pytest.approx({"completion": 0.0, "steps": 1.0, "turns": 2.0})
    assert record["return"] == pytest.approx(-0.1 - 0.5)
    assert np.mean(record["returns"]) == pytest.approx(record["return"])
    assert set(record["tools"]["agents"]) == {"reader_0"}
    team = record["tools"]["team"]
    assert (team["episodes"], team["loops"]) == (8, 0)
    assert team["calls"] == record["ledger"]["team"]["tool_calls"]


def test_own_terms_travel_in_the_config_and_repeat_the_run(trained, tmp_path, capsys):
    config = json.loads((trained / "config.json").read_text())
    own = {"function": "marft_test_terms:turns", "weight": -0.25}
    assert config["keywords"]["reward"] == {"completion": 1, "steps": -0.1, "turns": own}
    assert run(capsys, "train", "--config", trained, "--out", tmp_path / "again")[0] == 0
    assert (tmp_path / "again" / "episodes.jsonl").read_bytes() == (trained / "episodes.jsonl").read_bytes()
    file = tmp_path / "own.toml"
    file.write_text(
        'command = "train"\nreward_term = ["turns=marft_test_terms:turns", "more=marft_test_terms:turns:0"]'
    )
    given = ["--reward-term", "turns=marft_test_terms:turns:2", "--config", file, "--print-config"]
    code, printed, _ = run(capsys, "train", *ENV, *given)
    assert code == 0
    (tmp_path / "printed.toml").write_text(printed)
    code, again, _ = run(capsys, "train", "--config", tmp_path / "printed.toml", "--print-config")
    assert (code, again) == (0, printed)
    assert "weight = 2.0" in printed, "the flag replaces the term of the file"
    assert "[keywords.reward.more]" in printed


def test_success_pays_as_completion_beside_own_terms(capsys):
    code, out, _ = run(
        capsys, "play", "marft/math_solo-v0", "--reward-term", "turns=marft_test_terms:turns:-0.5", "--index", "0"
    )
    assert code == 0
    assert "team reward 0.5;" in out
    assert '"term_turns": 1.0' in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--reward-term", "turns=marft_test_terms"], "wanted NAME=MODULE:FUNCTION"),
        (["--reward-term", "turns=marft_test_terms:turns:much"], "the weight is 'much', wanted a number"),
        (["--reward-term", "turns=marft_test_terms:turns:nan"], "the weight of 'turns' is nan"),
        (["--reward-term", "turns=marft_test_terms:none"], "marft_test_terms has no none"),
        (["--reward-term", "a=marft_test_terms:turns"] * 2, "each name once"),
        (["--reward", "outcome", "--reward-term", "a=marft_test_terms:turns"], "which --reward outcome has not"),
    ],
)
def test_a_bad_term_is_one_clear_line_and_leaves_nothing_behind(capsys, tmp_path, flags, message):
    code, _, error = run(capsys, "train", *ENV, *SMALL, *flags, "--out", tmp_path / "out")
    assert code == 1
    assert error.startswith("marft: error: ")
    assert message in error
    assert not (tmp_path / "out").exists()


def test_a_term_that_returns_nan_fails_its_episodes_with_the_cause(capsys, tmp_path):
    arguments = ["--model", "tiny", "--limit", "2", "--max-new-tokens", "2", "--out", tmp_path / "out"]
    term = ["--reward-term", "empty=marft_test_terms:empty"]
    assert run(capsys, "eval", *ENV, *term, *arguments)[0] == 0
    record = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert (record["failures"], record["scores"], record["return"]) == (2, [[None], [None]], None)
    line = json.loads((tmp_path / "out" / "episodes.jsonl").read_text().splitlines()[0])
    assert "JudgeFailure: reward term 'empty' on task" in line["failure"]
    assert "found nan, wanted a finite number" in line["failure"]


def test_a_plan_of_the_bench_takes_own_terms():
    from baselines.bench.plan_file import plan_of

    reward = {"completion": 1.0, "turns": {"function": "marft_test_terms:turns"}}
    task = {"name": "lookup", "env": "marft/tools_duo-v0", "data": "embedded:lookup", "model": "tiny"}
    task |= {"teams": ["duo"], "problems": 2, "training_tokens": 8, "settings": {"groups": 1, "group_size": 2}}
    plan = plan_of({"name": "own", "arms": ["team"], "tasks": [task | {"keywords": {"reward": reward}}]})
    team = next(iter(plan.tasks[0].teams.values()))
    env = marft_envs.make("marft/tools_duo-v0", **plan.tasks[0].keywords("train", team))
    assert env.unwrapped.settings["reward"]["turns"] == {"function": "marft_test_terms:turns", "weight": 1.0}


# ------------------------------------------------------------------ cohorts


def test_scores_by_cohort_by_hand():
    nan = float("nan")
    scores = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 0], [1, nan, nan]], np.float64)
    rows = cohort_scores(scores, Cohorts.of({"level": [2, 10, 10, None], "subject": ["x"] * 4}))
    assert [row.cohort for row in rows] == [None, ("level", "2"), ("level", "10"), ("level", "none")]
    whole, easy, hard, other = rows
    assert (whole.scenarios, whole.failed) == (4, 2)
    assert whole.average == wilson((1 + 2 / 3 + 0 + 1) / 4, 4)
    assert whole.pass_hat == {2: wilson((1 + 1 / 3 + 0) / 3, 3), 3: wilson(1 / 3, 3)}, "one scenario has one sample"
    assert easy.average.mean == easy.pass_hat[3].mean == 1.0
    assert hard.pass_hat[2].mean == pytest.approx(1 / 6)
    assert other.pass_hat == {}
    assert json.loads(json.dumps(whole.to_dict()))["pass_hat_k"]["3"]["mean"] == pytest.approx(1 / 3)
    shares = cohort_scores(np.array([[0.5, 1.0]]), Cohorts({}))
    assert shares[0].pass_hat == {}, "scores that are no successes have no pass^k"
    assert cohort_scores(np.full((2, 1), nan), Cohorts({}))[0].to_dict()["avg_at_k"]["mean"] is None
    with pytest.raises(CohortError, match="no scenario has level=3; there are: 2, 10, none"):
        Cohorts.of({"level": [2, 10, 10, None]}).chosen(("level", "3"))


def test_eval_prints_and_records_scores_by_cohort(evaluated, capsys, trained, tmp_path):
    arguments = ["--checkpoint", trained, "--limit", "4", "--max-new-tokens", "2", "--out", tmp_path]
    code, printed, _ = run(capsys, "eval", *ENV, "--data", "embedded", "--other-tools", *arguments)
    assert code == 0
    for text in ("world=lookup", "world=shop", "accuracy [95 % interval]", "mean return 0.000"):
        assert text in printed
    record = json.loads((evaluated / "evaluation.json").read_text())
    whole = record["by_cohort"][0]
    assert (whole["cohort"], whole["scenarios"]) == (None, 4)
    assert whole["avg_at_k"] == {"mean": record["accuracy"], "interval_95": record["interval_95"]}
    assert list(whole["pass_hat_k"]) == ["2"]


# ------------------------------------------------------------------ export


def test_a_run_is_exported_whole(trained, tmp_path, capsys):
    """The records of a run have no observations; the exported ones have, and replay without a difference."""
    out = tmp_path / "run.jsonl"
    code, printed, _ = run(capsys, "export", trained, "--format", "jsonl", "--out", out)
    assert (code, printed) == (0, f"{out}: 4 episodes\n")
    kept = [json.loads(line) for line in (trained / "episodes.jsonl").read_text().splitlines()]
    config = json.loads((trained / "config.json").read_text())
    env = marft_envs.make(config["env"], **config["keywords"])
    for episode, line in zip(read_episodes(out), kept, strict=True):
        assert replay(env, episode) == []
        assert [turn.tokens for turn in episode.turns] == [turn["tokens"] for turn in line["turns"]]
        assert episode.terms == line["game"]["terms"]
        assert sum(episode.rewards) == pytest.approx(line["return"])


def test_an_evaluation_is_exported_in_every_format(evaluated, tmp_path, capsys):
    for form in ("jsonl", "parquet", "spans"):
        assert run(capsys, "export", evaluated, "--format", form, "--out", tmp_path / f"new/e.{form}")[0] == 0
    lines = (evaluated / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    games = [Episode.from_dict(json.loads(line)["game"]) for line in lines]
    assert read_episodes(tmp_path / "new" / "e.jsonl") == games
    assert [e.to_dict() for e in read_episodes(tmp_path / "new" / "e.parquet")] == [e.to_dict() for e in games]
    traces = [json.loads(line) for line in (tmp_path / "new" / "e.spans").read_text().splitlines()]
    assert len(traces) == len(games) == 8
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"e.jsonl", "e.parquet", "e.spans"}


def test_an_export_replaces_nothing_unless_told(evaluated, tmp_path, capsys):
    out = tmp_path / "e.jsonl"
    out.write_text("mine")
    arguments = ["export", evaluated, "--format", "jsonl", "--out", out]
    code, _, error = run(capsys, *arguments)
    assert (code, out.read_text()) == (1, "mine")
    assert "exists already: give another --out, or --overwrite" in error
    assert run(capsys, *arguments, "--overwrite")[0] == 0
    assert len(read_episodes(out)) == 8


def test_failed_episodes_a_cut_line_and_a_bad_one(evaluated, tmp_path, capsys):
    (tmp_path / "evaluation.json").write_text("{}")
    whole = (evaluated / "episodes.jsonl").read_text(encoding="utf-8").splitlines()[0]
    failed = json.dumps({"failure": "boom", "game": None})
    lines = tmp_path / "episodes.jsonl"
    arguments = ["export", tmp_path, "--format", "jsonl", "--out", tmp_path / "e.jsonl", "--overwrite"]
    lines.write_text(f"{failed}\n{whole}\n{whole[:50]}", encoding="utf-8")
    assert "1 episodes; 1 failed ones have no record" in run(capsys, *arguments)[1]
    before = (tmp_path / "e.jsonl").read_bytes()
    lines.write_text(f"{whole}\n{{}}\n", encoding="utf-8")
    assert "episodes.jsonl:2: KeyError: 'failure'" in run(capsys, *arguments)[2]
    lines.write_text(f"{failed}\n", encoding="utf-8")
    assert "has no episode to export; 1 failed" in run(capsys, *arguments)[2]
    assert (tmp_path / "e.jsonl").read_bytes() == before
    assert not list(tmp_path.glob(".*"))
    assert "is neither a run nor an evaluation" in run(capsys, "export", tmp_path / "no", *arguments[2:])[2]


@pytest.mark.parametrize(
    ("form", "module", "extra"), [("parquet", "pyarrow", "data"), ("spans", "opentelemetry.sdk.trace", "telemetry")]
)
def test_a_missing_extra_is_named(evaluated, tmp_path, capsys, monkeypatch, form, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    code, _, error = run(capsys, "export", evaluated, "--format", form, "--out", tmp_path / "e")
    assert code == 1
    assert pip_install(extra) in error
    assert not list(tmp_path.iterdir())


def test_exporting_loads_no_torch(evaluated, tmp_path):
    arguments = ["export", str(evaluated), "--format", "jsonl", "--out", str(tmp_path / "e.jsonl")]
    code = f"import sys; from baselines.cli.main import main; main({arguments}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
