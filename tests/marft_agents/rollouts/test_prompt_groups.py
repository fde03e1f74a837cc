"""Dynamic sampling: draws that teach nothing are drawn again, what is reported is the first draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.learning.advantages import SMALLEST_SPREAD
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.policies.policy import text_action
from marft_agents.rollouts.prompt_groups import AllEpisodesFailedError, GroupSettings, differing
from marft_agents.rollouts.rollout import collect, draw_seed
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import SampledTurn, Trajectory
from tests.helpers.chooser import Chooser, spell
from tests.helpers.fakes import CopyDigit, Market, word_team
from tests.helpers.naive import BRIEF_CRITIC, adapters, moved
from tests.helpers.played_groups import gather
from tests.helpers.run_outcome import outcome

GROUPS, SIZE = 4, 3


class Table:
    """Plays episodes by a table: draws whose index it names differ in return, the others agree; keeps what it played.

    Args:
        informative: indices of draws.
        failing: numbers of episodes that fail.
    """

    def __init__(self, informative, failing=()):
        self.informative, self.failing = set(informative), set(failing)
        self.calls = []

    def __call__(self, episodes):
        self.calls.append(list(dict.fromkeys(episode.group for episode in episodes)))
        return [self.play(episode) for episode in episodes]

    def play(self, episode):
        reward = float(episode.number % SIZE == 0) if episode.group in self.informative else 1.0
        failure = "the judge is gone" if episode.number in self.failing else None
        return Trajectory(
            episode.seed, episode.group, (SampledTurn("a_0", text_action("x"), reward),), True, False, failure=failure
        )


def draws_of(experience):
    """Return which draws an update learns from."""
    return [draw.trained[0].group for draw in experience.batch]


@settings(deadline=None, max_examples=200)
@given(informative=st.sets(st.integers(0, 31)), rounds=st.integers(0, 3), update=st.integers(0, 1))
def test_draws_that_teach_nothing_are_replaced_while_rounds_last(informative, rounds, update):
    table = Table(informative)
    experience = gather(table, update, GroupSettings(9, GROUPS, SIZE, extra_rounds=rounds))
    start = update * (1 + rounds) * GROUPS
    batch, drawn = list(range(start, start + GROUPS)), GROUPS  # the rule once more, draw by draw
    for first in range(start + GROUPS, start + (1 + rounds) * GROUPS, GROUPS):
        uninformative = [i for i, draw in enumerate(batch) if draw not in informative]
        for place, draw in zip(uninformative, range(first, first + len(uninformative)), strict=True):
            batch[place] = draw if draw in informative else batch[place]
        drawn += len(uninformative)
    kept = [draw for draw in batch if draw in informative]
    assert draws_of(experience) == (kept if rounds and kept else batch)
    assert {len(draw.trained) for draw in experience.batch} == {SIZE}
    assert sum(map(len, table.calls)) == drawn == experience.metrics()["team/draws"]
    assert len(table.calls) <= 1 + rounds
    assert all(table.calls)  # nobody is asked to play nothing
    assert [draw.episodes[0].group for draw in experience.first] == list(range(start, start + GROUPS))
    assert all(t.seed == draw_seed(9, t.group) for t in experience.played)


def test_no_task_draw_is_used_twice_in_a_run():
    table = Table(())
    for update in range(5):
        gather(table, update, GroupSettings(0, GROUPS, SIZE, extra_rounds=3))
    assert [draw for call in table.calls for draw in call] == list(range(5 * 4 * GROUPS))


def test_success_is_that_of_the_first_draw():
    """Draws kept for being informative are no fair sample: here their episodes succeed less often than others."""
    metrics = gather(Table({3, 4, 5, 6}), 0, GroupSettings(0, GROUPS, SIZE, extra_rounds=5)).metrics()
    assert metrics["team/draws"] == 7
    assert metrics["team/success"] == pytest.approx((3 * 1 + 1 / 3) / 4)
    assert metrics["team/informative_groups"] == 1 / 4
    assert (metrics["team/turns"], metrics["team/tokens"]) == (1, 0)


def test_without_extra_rounds_nothing_is_drawn_again():
    experience = gather(Table(()), 3, GroupSettings(0, GROUPS, SIZE))
    assert draws_of(experience) == [12, 13, 14, 15]
    assert experience.further == ()
    assert experience.metrics()["team/draws"] == GROUPS


def test_what_failed_tells_nothing_about_a_draw():
    table = Table({0, 1, 4, 5}, failing=[0, 4, 5, 6, 7, 8])  # draw 0 loses who differs, draw 1 all but one, draw 2 all
    experience = gather(table, 0, GroupSettings(0, GROUPS, SIZE, extra_rounds=1))
    assert draws_of(experience) == [4, 5]
    assert table.calls == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert experience.metrics()["team/failed"] == 6


def test_draws_of_equal_returns_teach_where_turns_are_compared():
    def play(plan):
        """Pay in the first turn or in the second, in turns: the returns agree, what the second turn earns does not."""
        return [
            Trajectory(
                episode.seed,
                episode.group,
                tuple(SampledTurn("a_0", text_action("x"), float(k == episode.number % 2), round=k) for k in (0, 1)),
                True,
                False,
            )
            for episode in plan
        ]

    by_return = gather(play, 0, GroupSettings(0, GROUPS, SIZE, extra_rounds=2))
    by_turn = gather(play, 0, GroupSettings(0, GROUPS, SIZE, extra_rounds=2, by_turn=True))
    assert by_return.metrics()["team/draws"] == 3 * GROUPS
    assert by_turn.metrics()["team/draws"] == GROUPS
    assert (by_return.metrics()["team/informative_groups"], by_turn.metrics()["team/informative_groups"]) == (0, 1)


def test_an_update_whose_first_draws_all_fail_plays_no_further_ones():
    table = Table((), failing=range(GROUPS * SIZE))
    with pytest.raises(AllEpisodesFailedError, match="all 12 episodes of the update failed; the first: the judge"):
        gather(table, 0, GroupSettings(0, GROUPS, SIZE, extra_rounds=4))
    assert len(table.calls) == 1


def test_with_branches_a_draw_teaches_if_some_siblings_differ():
    policy = Chooser({"actor_0": lambda observation: observation.split()[1]}, words=list("012"))
    grouping = GroupSettings(2, groups=6, group_size=1, extra_rounds=3, branches=2)
    experience = gather(lambda plan: collect(CopyDigit, policy, plan, seed=2, encode=spell), 0, grouping)
    assert any(draw.informative for draw in experience.first)
    assert not all(draw.informative for draw in experience.first)
    assert sum(d.informative for d in experience.batch) > sum(d.informative for d in experience.first)
    for draw in experience.batch:
        speakers = [t.team_return for t in draw.trained if t.branch == 0]
        assert draw.informative == (len(set(speakers)) == 2)
    kept = [t.seed for draw in experience.batch for t in draw.trained]
    assert kept == [t.seed for t in experience.trained]


# ------------------------------------------------------------------ in training


def trainer(*, group_size=2, seed=0, **knobs):
    team = word_team(["speaker_0", "actor_0"])
    learner = Learner(team, LearnerSettings(policy_lr=1e-2, critic_lr=1e-2, **knobs))
    return Trainer(CopyDigit, team, learner, TrainingSchedule(groups=4, group_size=group_size, seed=seed))


def test_the_team_learns_from_draws_that_differ():
    plain, dynamic = trainer(centring="group"), trainer(centring="group", dynamic_sampling=4)
    before = adapters(dynamic.team)
    first, found = plain.step(), dynamic.step()
    for name in ("team/success", "team/return", "team/tokens", "team/informative_groups"):
        assert found[name] == first[name]
    assert first["team/draws"] == 4 < found["team/draws"] <= 20
    assert first["team/extra_tokens"] == 0 < found["team/extra_tokens"]
    assert moved(before, adapters(dynamic.team)) == {"speaker_0", "actor_0"}


def test_groups_of_one_are_refused_where_they_would_be_compared():
    for knobs in ({"centring": "group"}, {"centring": "group", "dynamic_sampling": 1}, {"baseline": "group"}):
        with pytest.raises(SettingsError, match="wanted group_size >= 2, found 1"):
            trainer(group_size=1, **knobs)
    trainer(group_size=1, baseline="group", compare="turn", branches=2)


def test_extra_draws_of_a_broken_game_are_dull():
    class Fragile(Market):
        """Draws after the first four cannot be played."""

        def reset(self, seed=None, options=None):
            if seed not in {draw_seed(0, g) for g in range(4)}:
                raise OSError("closed for the season")
            super().reset(seed, options)

        def step(self, action):
            super().step(action)
            self.rewards = dict.fromkeys(self.agents, 0.0)

    team = word_team(["buyer_0", "seller_0"])
    learner = Learner(team, LearnerSettings(dynamic_sampling=2, centring="group"))
    metrics = Trainer(Fragile, team, learner, TrainingSchedule(groups=4, group_size=2)).step()
    assert (metrics["team/draws"], metrics["team/failed"]) == (12, 0)
    assert np.isfinite(list(metrics.values())).all()


# ------------------------------------------------------------------ resume


class KilledError(BaseException):
    """As SIGKILL would: nothing catches it."""


class Mortal(CopyDigit):
    """Counts the steps of all games of a run; the run dies at one of them."""

    steps, last = 0, None

    def step(self, action):
        Mortal.steps += 1
        if Mortal.steps == Mortal.last:
            raise KilledError
        super().step(action)


def run(folder, knobs, last=None):
    """Train a run, from its newest checkpoint if there is one, until its end or its death; return its steps."""
    Mortal.steps, Mortal.last = 0, last
    team = word_team(["speaker_0", "actor_0"])
    learner = Learner(
        team, LearnerSettings(policy_lr=1e-2, critic_lr=1e-2, **BRIEF_CRITIC, **knobs), seed=1, total_updates=4
    )
    done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
    records = RunFolder(folder, {}, resume_at=done)
    schedule = TrainingSchedule(updates=4, groups=4, group_size=2, branched_turns=1, seed=3)
    try:
        Trainer(Mortal, team, learner, schedule, folder=records).run()
    finally:
        records.close()
    return Mortal.steps


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param({"centring": "group", "dynamic_sampling": 3}, marks=pytest.mark.long),
        {"baseline": "leave_one_out", "compare": "turn", "centring": "none", "branches": 3, "level": "token"},
    ],
    ids=["further draws", "branches"],
)
def test_a_run_killed_while_it_draws_again_or_branches_resumes_exactly(tmp_path, knobs):
    steps = run(tmp_path / "whole", knobs)
    wanted = outcome(tmp_path / "whole")
    played = [m["team/draws"] + m["team/branches"] for m in wanted["metrics"]]
    assert len(set(played)) > 1 or "branches" in knobs  # how much an update draws depends on what came of it
    assert min(played) >= 4
    done = []
    for share in (0.35, 0.6, 0.97):
        folder = tmp_path / str(share)
        with pytest.raises(KilledError):
            run(folder, knobs, last=int(share * steps))
        done.append(len(read_metrics(folder)))
        run(folder, knobs)
        assert outcome(folder) == wanted
    assert done[0] > 0
    assert done == sorted(set(done))


def test_returns_that_differ_by_rounding_teach_nothing():
    def earned(*rewards):
        turns = tuple(SampledTurn("a_0", text_action("x"), reward) for reward in rewards)
        return Trajectory(0, 0, turns, terminated=True, truncated=False)

    early, late = earned(0.1, 0.2, 0.3), earned(0.3, 0.2, 0.1)
    assert early.team_return != late.team_return
    assert differing([early, late]) == [False]
    assert differing([early, earned(0.3, 0.2)]) == [True]
    assert differing([earned(0.0), earned(SMALLEST_SPREAD)]) == [False]
