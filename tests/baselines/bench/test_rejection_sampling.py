"""Rejection-sampling fine-tuning: its loop, the answers that it keeps, its budget, and a resume after a kill."""

import json

import pytest

from baselines.bench import rejection_sampling
from baselines.bench.rejection_sampling import ITERATIONS, next_goal, solved_answers, train_on_solved
from baselines.experiment.experiment import Experiment
from baselines.probes.digit_games import team_of
from marft_agents.policies.adapter_files import pack_adapters
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import read_metrics

BUDGET, GAMES = 40, 8


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(rejection_sampling, "FEWEST_STEPS", 1)


def copy_game(**settings):
    """Return a training of the one agent that reads a digit and says it."""
    given = {"groups": GAMES, "group_size": 1, "max_new_tokens": 1, "temperature": 1.0, "budget_tokens": BUDGET}
    env = "baselines.probes.digit_games:probe/copy_duo-v0"
    return Experiment(env, team=team_of("copy", 1), models="tiny-words", **given | settings)


def adapters(experiment, out):
    team = experiment.build_team(["agent_0"])
    checkpoint.load_adapters(out, team)
    return pack_adapters(team)


def episodes(out):
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def test_the_budget_is_spent_in_equal_parts():
    assert [next_goal(tokens, 90) for tokens in (0, 29, 30, 59, 89)] == [30, 30, 60, 60, 90]
    assert next_goal(0, 1) == 1
    assert next_goal(0, 10) == 4  # the end of a part is rounded up


def test_it_samples_filters_and_fine_tunes_until_the_budget_is_spent(tmp_path, few_steps):
    experiment, out = copy_game(), tmp_path / "run"
    train_on_solved(experiment, out)

    metrics = read_metrics(out)
    assert [line["tokens_total"] for line in metrics] == [16, 32, 40]  # rollouts of 8 tokens reach 14, 27 and 40
    assert len(metrics) == ITERATIONS
    played = episodes(out)
    assert len({line["group"] for line in played}) == len(played) == BUDGET  # no prompt group is played twice

    team = experiment.build_team(["agent_0"])
    kept = solved_answers(experiment, out, team)
    solved = [line for line in played if line["infos"]["success"]]
    assert 0 < len(solved) < BUDGET
    assert {example.turn.action for example in kept} == {line["turns"][0]["text"] for line in solved}
    seen = [(example.turn.messages[0]["content"], example.turn.action) for example in kept]
    assert len(set(seen)) == len(seen) < len(solved)  # tasks with one digit are one problem
    assert pack_adapters(team) != adapters(experiment, out)


def test_without_a_solved_answer_the_adapters_stay_untrained(tmp_path):
    experiment = Experiment(
        "marft/math_duo-v0", team="solo", models="tiny", groups=1, group_size=2, max_new_tokens=2, budget_tokens=8
    )
    train_on_solved(experiment, tmp_path)
    team = experiment.build_team(["actor_0"])
    untrained = pack_adapters(team)
    checkpoint.load_adapters(tmp_path, team)
    assert pack_adapters(team) == untrained
    assert read_metrics(tmp_path)[-1]["tokens_total"] >= 8


@pytest.mark.long
def test_a_killed_and_resumed_training_equals_an_undisturbed_one(tmp_path, few_steps, monkeypatch):
    class KilledError(Exception):
        pass

    real, done = rejection_sampling._fine_tune, []

    def fine_tune(*arguments):
        done.append(None)
        if len(done) == 2:  # episodes of the second iteration are written, its checkpoint is not
            raise KilledError
        return real(*arguments)

    experiment, whole, killed = copy_game(), tmp_path / "whole", tmp_path / "killed"
    train_on_solved(experiment, whole)
    monkeypatch.setattr(rejection_sampling, "_fine_tune", fine_tune)
    with pytest.raises(KilledError):
        train_on_solved(experiment, killed)
    assert len(read_metrics(killed)) == 2
    train_on_solved(experiment, killed, resume=True)
    assert len(done) == 1 + 1 + 2
    assert adapters(experiment, killed) == adapters(experiment, whole)
    assert [line["tokens_total"] for line in read_metrics(killed)] == [
        line["tokens_total"] for line in read_metrics(whole)
    ]
    assert [line["turns"] for line in episodes(killed)] == [line["turns"] for line in episodes(whole)]


@pytest.mark.probes
def test_it_learns_to_say_what_it_reads(tmp_path):
    train_on_solved(copy_game(groups=64, budget_tokens=1024, policy_lr=5e-3), tmp_path)
    success = [line["team/success"] for line in read_metrics(tmp_path)]
    assert success[0] < 0.45 < 0.75 < success[-1]
