"""`budget_tokens`: a run ends after the update that spends it, also when it was stopped, killed or rolled back."""

from __future__ import annotations

import itertools
import math

import pytest

from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.schedule import UPDATES, TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.runs.validation import Validator
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import CopyDigit, Market, word_team
from tests.helpers.naive import BRIEF_CRITIC
from tests.helpers.run_outcome import outcome

PER_UPDATE = (42, 84)  # tokens of an update: 6 episodes of 7 turns of one or two tokens


class Killed(BaseException):
    """The process is gone."""


def run(folder, *, die=None, knobs=None, every=0, **schedule):
    """Train on from the newest checkpoint to the end; return the trainer.

    Args:
        folder: the run's.
        die: "rollout", "log" or "save": die in the second update before it is done, or right after.
        knobs: of the learner.
        every: validate every n-th update; 0: never.
        **schedule: of the run.
    """
    team = word_team(["buyer_0", "seller_0"])
    learner = Learner(team, LearnerSettings(policy_lr=1e-2, critic_lr=1e-2, **BRIEF_CRITIC, **(knobs or {})), seed=4)
    done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
    records = RunFolder(folder, {}, resume_at=done)
    validator = Validator(lambda: Market(cut=True), team, [{"seed": 1}], every=every) if every else None
    plan = TrainingSchedule(**{"groups": 3, "group_size": 2, "seed": 1, **schedule})
    trainer = Trainer(lambda: Market(cut=True), team, learner, plan, folder=records, validator=validator)
    if die is not None:
        _dying(trainer, records, die)
    try:
        trainer.run()
    except Killed:
        assert die is not None
    records.close()
    return trainer


def _dying(trainer, records, where):
    owner, name = {"rollout": (trainer.rollouts, "rollout"), "log": (records, "log"), "save": (trainer, "_save")}[where]
    method = getattr(owner, name)

    def dies(*arguments, **keywords):
        found = method(*arguments, **keywords)
        if trainer.learner.updates == (1 if where == "rollout" else 2):
            raise Killed
        return found

    setattr(owner, name, dies)


def totals(folder):
    return [line["tokens_total"] for line in read_metrics(folder)]


def test_the_run_ends_after_the_update_that_reaches_the_budget(tmp_path):
    run(tmp_path / "long", updates=4)
    spent = totals(tmp_path / "long")
    assert all(PER_UPDATE[0] <= after - before <= PER_UPDATE[1] for before, after in itertools.pairwise([0, *spent]))
    for budget, updates in [(1, 1), (spent[0], 1), (spent[0] + 1, 2), (spent[2], 3)]:
        run(tmp_path / str(budget), budget_tokens=int(budget))
        assert totals(tmp_path / str(budget)) == spent[:updates]
    assert outcome(tmp_path / str(spent[2]))["episodes"].count("\n") == 3 * 6


@pytest.mark.parametrize(
    "knobs",
    [
        {"baseline": "leave_one_out", "compare": "turn", "centring": "none", "branches": 2},
        {"centring": "group", "dynamic_sampling": 2},
    ],
)
def test_branches_and_further_groups_are_spent_too(tmp_path, knobs):
    run(tmp_path, updates=2, knobs=knobs)
    generated = [line["team/tokens"] + line["team/extra_tokens"] for line in read_metrics(tmp_path)]
    assert totals(tmp_path) == [generated[0], sum(generated)]


def test_updates_still_limit_a_budget_and_without_one_there_are_as_many_as_it_takes(tmp_path):
    assert len(totals_of(tmp_path, updates=2, budget_tokens=10**6)) == 2
    assert [TrainingSchedule().max_updates, TrainingSchedule(updates=7).max_updates] == [UPDATES, 7]
    assert TrainingSchedule(budget_tokens=10**6).max_updates == 10**6
    assert TrainingSchedule(budget_tokens=50, epochs=3, groups=2).for_tasks(4).max_updates == 6
    with pytest.raises(SettingsError, match="budget_tokens = -1, wanted >= 0"):
        TrainingSchedule(budget_tokens=-1)
    with pytest.raises(SettingsError, match="updates = 0, wanted >= 1 or none"):
        TrainingSchedule(updates=0)


def totals_of(folder, **schedule):
    run(folder, **schedule)
    return totals(folder)


@pytest.mark.parametrize("knobs", [{}, pytest.param({"lr_schedule": "cosine"}, marks=pytest.mark.long)])
@pytest.mark.parametrize("die", [pytest.param("rollout", marks=pytest.mark.long), "log", "save"])
def test_a_kill_at_any_moment_changes_nothing(tmp_path, die, knobs):
    budget = {"budget_tokens": 200}
    run(tmp_path / "whole", knobs=knobs, **budget)
    assert len(totals(tmp_path / "whole")) >= 3
    killed = run(tmp_path / "killed", die=die, knobs=knobs, **budget)
    assert not killed.over
    run(tmp_path / "killed", knobs=knobs, **budget)
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


def test_halves_make_a_whole_and_a_run_that_is_over_does_nothing_more(tmp_path):
    run(tmp_path / "whole", budget_tokens=200)
    run(tmp_path / "halves", updates=1)
    run(tmp_path / "halves", budget_tokens=100)
    run(tmp_path / "halves", budget_tokens=200)
    assert outcome(tmp_path / "halves") == outcome(tmp_path / "whole")
    again = run(tmp_path / "halves", budget_tokens=200)
    assert again.over
    assert outcome(tmp_path / "halves") == outcome(tmp_path / "whole")


def test_the_last_update_is_validated(tmp_path):
    run(tmp_path, budget_tokens=100, every=10)
    validated = ["validation/success" in line for line in read_metrics(tmp_path)]
    assert validated == [False] * (len(validated) - 1) + [True]
    assert len(validated) > 1
    spent = totals(tmp_path)
    assert spent == totals_of(tmp_path / "unvalidated", budget_tokens=100)  # held-out episodes do not count


def test_the_cosine_follows_what_comes_first():
    team = word_team(["speaker_0", "actor_0"])
    learner = Learner(team, LearnerSettings(lr_schedule="cosine"), total_updates=1)
    schedule = TrainingSchedule(groups=2, group_size=2, budget_tokens=1000, updates=10)
    trainer = Trainer(CopyDigit, team, learner, schedule)
    assert (schedule.progress(1, 0), schedule.progress(1, 500), schedule.progress(10, 0)) == (0.1, 0.5, 1)
    trainer.step()
    assert learner.progress == 0
    trainer.tokens = 750
    trainer.step()
    assert learner.progress == 0.75
    assert learner._lr_factor() == pytest.approx(0.5 * (1 + math.cos(0.75 * math.pi)))
    trainer.schedule = TrainingSchedule(updates=10)
    assert not trainer.over


def test_a_checkpoint_without_a_count_cannot_go_on_with_a_budget(tmp_path):
    run(tmp_path, updates=1)
    for state in (tmp_path / "checkpoints").glob("*/state.json"):
        record = checkpoint.read_state(state.parent)
        assert record.pop("tokens_total") == totals(tmp_path)[-1] == checkpoint.tokens_of(tmp_path)
        checkpoint.write_state(state.parent, record)
    assert checkpoint.tokens_of(tmp_path) is None
    with pytest.raises(SettingsError, match="budget_tokens = 100: found no count of the tokens of the 1 updates done"):
        run(tmp_path, budget_tokens=100)
    run(tmp_path, updates=2)  # an older run goes on, and does not claim a count
    assert ["tokens_total" in line for line in read_metrics(tmp_path)] == [True, False]
