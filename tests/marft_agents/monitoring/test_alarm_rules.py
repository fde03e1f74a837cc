"""Alarms: each fires on a history or a run that was really spoilt, and none on one that learns."""

from __future__ import annotations

import importlib
import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.monitoring.action_statistics import behaviour
from marft_agents.monitoring.alarm_rules import HealthSettings
from marft_agents.monitoring.alarms import KINDS, Health
from marft_agents.policies.policy import text_action
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Action, SampledTurn, Shortening, Trajectory
from tests.helpers.fakes import CopyDigit, Market, Probe, word_team

USUAL = {
    "entropy": 0.7,
    "kl": 0.01,
    "ratio_max": 1.5,
    "ratio_min": 0.6,
    "grad_norm": 3.0,
    "tokens_mean": 12.0,
    "cap_hit_share": 0.1,
    "advantage_std": 0.4,
    "same_share": 0.1,
    "empty_share": 0.0,
    "copied_share": 0.0,
}


def history(updates=30, **changes):
    """Return metrics of two agents: noise around what is usual; for `solver_0` a change says what is not.

    Args:
        updates: how many.
        **changes: measure -> value by number of the update; "earned" -> return of the team.
    """
    rng = np.random.default_rng(0)
    earned = changes.pop("earned", lambda update: 0.3)
    rows = []
    for update in range(updates):
        row = {"team/return": earned(update) + 0.02 * rng.normal(), "team/return_std": 0.45}
        for agent in ("solver_0", "checker_0"):
            row |= {f"{agent}/{m}": min(v * rng.uniform(0.8, 1.2), 1 if "share" in m else 99) for m, v in USUAL.items()}
        row |= {f"solver_0/{measure}": value(update) for measure, value in changes.items()}
        rows.append(row)
    return rows


def alarms_of(rows, **settings):
    health = Health(HealthSettings(**settings))
    return [alarm for update, row in enumerate(rows) for alarm in health.observe(update, row)]


def from_ten(before, after):
    return lambda update: after if update >= 10 else before


# ------------------------------------------------------------------ histories


def test_a_usual_history_raises_nothing():
    assert alarms_of(history(200)) == []


@pytest.mark.parametrize(
    ("kind", "measure", "before", "after", "latest"),
    [
        ("explosion", "grad_norm", 3.0, 90.0, 10),
        ("explosion", "kl", 0.01, 1.5, 10),
        ("explosion", "ratio_max", 1.5, 4000.0, 10),
        ("explosion", "ratio_min", 0.6, 0.0002, 10),
        ("explosion", "kl", 0.01, math.nan, 10),
        ("explosion", "ratio_max", 1.5, math.inf, 10),
        ("explosion", "ratio_min", 0.6, 0.0, 10),
        ("explosion", "entropy", 0.7, 3.5, 10),
        ("collapse", "entropy", 0.7, 0.01, 12),
        ("collapse", "grad_norm", 3.0, 0.0, 14),
        ("collapse", "same_share", 0.1, 1.0, 12),
        ("lazy", "same_share", 1.0, 1.0, 4),
        ("lazy", "empty_share", 0.0, 1.0, 12),
        ("lazy", "copied_share", 0.2, 0.98, 12),
        ("lazy", "advantage_std", 0.4, 0.001, 12),
        ("lazy", "tokens_mean", 12.0, 2.0, 12),
        ("length", "tokens_mean", 12.0, 30.0, 12),
        ("length", "tokens_mean", 12.0, 5.0, 12),
        ("length", "cap_hit_share", 0.1, 0.9, 12),
    ],
)
def test_each_alarm_names_the_agent_the_measure_and_the_update(kind, measure, before, after, latest):
    found = alarms_of(history(**{measure: from_ten(before, after)}))
    told = [alarm for alarm in found if (alarm.kind, alarm.measure) == (kind, measure)]
    assert [(alarm.agent, alarm.update) for alarm in told] == [("solver_0", latest)]  # once, while it lasts
    assert {alarm.agent for alarm in found} == {"solver_0"}
    assert str(told[0]).startswith(f"update {latest + 1}: {kind} of solver_0: ")


@pytest.mark.parametrize("measure", ["grad_norm", "kl", "ratio_max", "ratio_min", "entropy"])
@pytest.mark.parametrize("at", [0, 1, 7])
def test_what_is_not_a_number_explodes_at_once_and_whatever_came_before(measure, at):
    rows = history(20, **{measure: lambda update: math.nan if update == at else USUAL[measure]})
    found = alarms_of(rows)
    assert [(alarm.update, alarm.agent, alarm.kind, alarm.measure) for alarm in found] == [
        (at, "solver_0", "explosion", measure)
    ]
    assert f"{measure} is not a number" in found[0].sentence


def test_a_compounded_ratio_explodes_however_usual_it_is():
    found = alarms_of(history(20, compounded_ratio_max=lambda update: 99.0 if update < 10 else 150.0))
    assert [(a.update, a.agent, a.kind, a.measure) for a in found] == [
        (10, "solver_0", "explosion", "compounded_ratio_max")
    ]
    assert "multiplied by 150" in found[0].sentence
    assert alarms_of(history(20, compounded_ratio_max=lambda update: 150.0), alarm_compounded=200) == []
    assert alarms_of(history(20, compounded_ratio_max=lambda update: math.nan))[0].measure == "compounded_ratio_max"


def test_a_start_that_was_not_a_number_once_mutes_nothing_later():
    entropies = {1: math.nan, 12: 3.5}
    found = alarms_of(history(20, entropy=lambda update: entropies.get(update, 0.7)))
    assert [(alarm.update, alarm.kind, alarm.measure) for alarm in found] == [
        (1, "explosion", "entropy"),
        (12, "explosion", "entropy"),
    ]


@pytest.mark.parametrize(
    ("measure", "after"),
    [
        ("grad_norm", 40.0),
        ("kl", 0.9),
        ("ratio_max", 900.0),
        ("ratio_min", 0.002),
        ("entropy", 2.5),
        ("entropy", 0.03),
        ("same_share", 0.9),
        ("copied_share", 0.9),
        ("advantage_std", 0.05),
        ("tokens_mean", 20.0),
        ("cap_hit_share", 0.5),
    ],
)
def test_half_as_bad_is_no_alarm(measure, after):
    assert alarms_of(history(**{measure: from_ten(USUAL[measure], after)})) == []


@pytest.mark.parametrize(
    ("measure", "after"), [("entropy", 0.01), ("tokens_mean", 30.0), ("cap_hit_share", 0.9), ("grad_norm", 0.0)]
)
def test_what_pays_is_no_alarm_until_it_does_not(measure, after):
    changes = {measure: from_ten(USUAL[measure], after)}
    assert alarms_of(history(earned=from_ten(0.3, 0.9), **changes)) == []
    assert alarms_of(history(earned=lambda update: 0.9 if 8 <= update < 14 else 0.3, **changes))
    assert alarms_of(history(earned=lambda update: 0.3 if update < 8 else 0.9 if update < 14 else 0.6, **changes))


@pytest.mark.parametrize(("measure", "after"), [("entropy", 3.5), ("kl", 2.0), ("grad_norm", 90.0)])
def test_a_run_that_explodes_at_once_is_compared_with_its_first_update(measure, after):
    rows = history(2, **{measure: lambda update: after if update else USUAL[measure]})
    assert [(alarm.update, alarm.measure) for alarm in alarms_of(rows)] == [(1, measure)]


def test_a_short_action_that_is_always_right_is_no_alarm_a_long_one_is():
    changes = {"same_share": from_ten(0.1, 1.0), "earned": from_ten(0.3, 0.9)}
    assert alarms_of(history(**changes, tokens_mean=lambda update: 2.0)) == []
    assert [alarm.kind for alarm in alarms_of(history(**changes))] == ["collapse"]


def test_no_agent_is_lazy_where_nobody_moves_anything():
    """All advantages are zero where no episode differs from the others: that is the team's trouble."""
    rows = [
        row | {"checker_0/advantage_std": row["solver_0/advantage_std"]}
        for row in history(advantage_std=from_ten(0.4, 0))
    ]
    assert alarms_of(rows) == []


def with_team(rows, **values):
    return [row | {f"team/{measure}": value for measure, value in values.items()} for row in rows]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"return": 0.0}, "all episodes of the last 5 updates returned 0: .* sums to zero over the agents"),
        ({"return": 0.0, "group_return_std": 0.0}, "all episodes of the last 5 updates returned 0"),
        ({"return": 0.0, "success": 1.0}, "all episodes"),  # for infos success is something else than the return
        ({"return": 0.5, "success": 0.9}, r"all episodes .* returned 0\.5"),
        ({"return_std": 0.4, "group_return_std": 0.0}, "in no task draw of the last 5 updates .* raise group_size"),
        ({"episodes": 1.0}, "one episode per update, .* raise groups or group_size"),
    ],
)
def test_a_team_whose_returns_do_not_differ_stalls(values, told):
    rows = with_team(history(), **{"return_std": 0.0, "episodes": 64.0, "success": 0.3} | values)
    if values.get("success") == 1.0:
        rows = with_team(rows[:9], **{"return": 1.0}) + rows[9:]  # it has earned more
        alarms = alarms_of(rows)
        assert [alarm.update for alarm in alarms] == [9]
    else:
        alarms = alarms_of(rows)
        assert [alarm.update for alarm in alarms] == [4]
    [alarm] = alarms
    assert (alarm.agent, alarm.kind) == ("team", "stall")
    assert re.search(told, alarm.sentence)


def test_a_team_has_not_stalled_while_a_return_in_a_window_differs_or_it_has_solved_its_task():
    rows = history()
    for number, row in enumerate(rows):
        row["team/return_std"] = 0.2 if number % 5 == 4 else 0.0
    assert alarms_of(rows) == []
    solved = {"return": 1.0, "return_std": 0.0, "success": 1.0, "episodes": 64.0}
    assert alarms_of(with_team(history(), **solved)) == []
    assert alarms_of(with_team(history(), **solved, group_return_std=0.0)) == []


@pytest.mark.parametrize(
    ("measure", "before", "after"),
    [("same_share", 1.0, 1.0), ("same_share", 0.1, 1.0), ("copied_share", 0.2, 1.0), ("advantage_std", 0.4, 0.001)],
)
def test_an_agent_of_a_team_that_has_solved_its_task_may_repeat_itself(measure, before, after):
    rows = history(earned=lambda update: 0.97, **{measure: from_ten(before, after)})
    assert alarms_of(with_team(rows, success=0.97, return_std=0.17)) == []
    assert alarms_of(with_team(rows, success=0.97, return_std=0.5)) != []  # it succeeds by earning anything
    assert alarms_of(with_team(rows, success=0.9, return_std=0.17)) != []


def test_who_says_nothing_is_lazy_in_a_team_that_has_solved_its_task_too():
    rows = history(earned=lambda update: 0.97, empty_share=lambda update: 1.0)
    assert [alarm.kind for alarm in alarms_of(with_team(rows, success=0.97, return_std=0.17))] == ["lazy"]


def test_an_alarm_comes_back_only_after_a_window_of_peace():
    nervous = history(60, kl=lambda update: 5.0 if update in (10, 12, 14, 40) else 0.01)
    assert [alarm.update for alarm in alarms_of(nervous)] == [10, 40]


def test_flags_tell_of_every_agent_and_kind_and_of_the_update_alone():
    health = Health()
    flags = []
    for update, row in enumerate(history(15, kl=lambda update: 5.0 if update in (10, 12) else 0.01)):
        health.observe(update, row)
        flags.append(health.flags(update))
    names = {f"{agent}/alarm_{kind}" for agent in ("solver_0", "checker_0") for kind in KINDS}
    names |= {"team/alarm_context", "team/alarm_stall"}
    assert all(set(found) == names for found in flags)
    assert [update for update, found in enumerate(flags) if any(found.values())] == [10, 12]
    assert flags[12]["solver_0/alarm_explosion"] == 1.0


@pytest.mark.parametrize("cut", [1, 4, 9, 11, 12, 20])
def test_a_resumed_watch_raises_what_an_uninterrupted_one_does(cut):
    rows = history(entropy=from_ten(0.7, 0.001), kl=lambda update: 5.0 if update in (3, 25) else 0.01)
    first, second = Health(), Health()
    found = [alarm for update, row in enumerate(rows[:cut]) for alarm in first.observe(update, row)]
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    found += [alarm for update, row in enumerate(rows[cut:], cut) for alarm in second.observe(update, row)]
    assert found == alarms_of(rows)
    assert len(found) == 3


def test_what_is_not_measured_is_not_watched():
    assert alarms_of([{"team/return": 0.0, "solver_0/tokens_mean": 5.0}] * 20) == []
    assert alarms_of([{}] * 20) == []


def test_a_setting_out_of_range_is_refused():
    with pytest.raises(SettingsError, match=r"alarm_spike = 0\.5, wanted > 1"):
        HealthSettings(alarm_spike=0.5)


def test_the_page_tells_every_knob_and_every_floor_with_its_value():
    page = (Path(__file__).parents[3] / "docs" / "stability.md").read_text(encoding="utf-8")
    knobs = {f"--{name.replace('_', '-')}": float(value) for name, value in asdict(HealthSettings()).items()}
    floors = {
        f"{module}.{name}": float(value)
        for module in ("alarm_rules", "alarms", "action_statistics")
        for name, value in vars(importlib.import_module(f"marft_agents.monitoring.{module}")).items()
        if name.isupper() and isinstance(value, int | float)
    }
    told = {name: float(value) for name, value in re.findall(r"^\| `([\w.-]+)` \| ([\d.]+) \|", page, re.MULTILINE)}
    assert told == {name: value for name, value in (knobs | floors).items() if name != "--rollback"}
    assert len(floors) >= 9


# ------------------------------------------------------------------ what agents do


def episode(*said, group=0, **fields):
    """Return an episode of (agent, text, tokens, prompt)."""
    turns = [
        SampledTurn(a, Action(t, np.asarray([p], np.int32), np.ones(n, np.int32), np.zeros(n, np.float32), n < 9), 1.0)
        for a, t, n, p in said
    ]
    return Trajectory(0, group, tuple(turns), terminated=True, truncated=False, **fields)


def test_behaviour_counts_what_is_alike_empty_copied_and_cut():
    long = "a b c d e f g"
    episodes = [episode(("a_0", f"{long} {i}", 9, i), ("b_0", f" {long}  {min(i, 1)}", 8, i)) for i in range(8)]
    found = behaviour([*episodes, episode(("a_0", "", 1, 9), ("b_0", " \n", 1, 9)), episode(failure="broke")])
    assert found == pytest.approx(
        {
            "team/episodes": 9.0,
            "team/return_std": 0.0,
            "team/prompts_shortened": 0.0,
            "team/cap_hit_share": 8 / 18,
            "a_0/prompt_tokens_mean": 1.0,
            "a_0/prompt_tokens_max": 1.0,
            "b_0/prompt_tokens_mean": 1.0,
            "b_0/prompt_tokens_max": 1.0,
            "team/group_return_std": 0.0,
            "a_0/tokens_mean": 73 / 9,
            "a_0/cap_hit_share": 8 / 9,
            "a_0/distinct_share": 1.0,
            "a_0/empty_share": 1 / 9,
            "a_0/copied_share": 0.0,
            "a_0/same_share": 1 / 9,
            "b_0/tokens_mean": 65 / 9,
            "b_0/cap_hit_share": 0.0,
            "b_0/distinct_share": 3 / 9,
            "b_0/empty_share": 1 / 9,
            "b_0/copied_share": 2 / 9,
            "b_0/same_share": 7 / 9,
        }
    )


def test_prompts_that_were_shortened_are_counted_and_raise_an_alarm_above_one_percent():
    def turns(shortened, count=100):
        note = (Shortening(3, "a_0", 8, 0),)
        said = [
            SampledTurn(
                "b_0",
                replace(text_action("x"), token_ids=np.ones(1, np.int32), prompt_ids=np.ones(i + 1, np.int32),
                        shortened=note if i < shortened else ()),
                1.0,
            )
            for i in range(count)
        ]  # fmt: skip
        return behaviour([Trajectory(0, 0, tuple(said), terminated=True, truncated=False)])

    one, two = turns(1), turns(2)
    assert (one["team/prompts_shortened"], two["team/prompts_shortened"]) == (0.01, 0.02)
    assert (one["b_0/prompt_tokens_mean"], one["b_0/prompt_tokens_max"]) == (50.5, 100.0)
    health = Health()
    assert health.observe(0, one) == []
    [alarm] = health.observe(1, two)
    assert (alarm.agent, alarm.kind, alarm.value, alarm.threshold) == ("team", "context", 0.02, 0.01)
    assert "2.0% of the prompts were shortened" in str(alarm)
    assert health.flags(1)["team/alarm_context"] == 1.0
    assert health.observe(2, two) == []  # it was said


def test_who_is_always_asked_the_same_may_always_answer_the_same():
    assert "a_0/same_share" not in behaviour([episode(("a_0", "yes", 2, 5)) for _ in range(9)])
    assert "a_0/empty_share" not in behaviour([episode(("a_0", "yes", 2, i)) for i in range(7)])  # too few to tell


def test_only_what_was_visible_can_be_copied():
    said = [("a_0", "one two three", 8, 0), ("b_0", "one two three", 8, 1)]
    assert behaviour([episode(said[0], said[0]) for _ in range(8)])["a_0/copied_share"] == 0.0  # its own is no copy
    for visible, copied in (([], 0.0), ([[0, "a_0"]], 1.0)):
        game = {"turns": [{"visible": []}, {"visible": visible}]}
        assert behaviour([episode(*said, game=game) for _ in range(8)])["b_0/copied_share"] == copied


def test_of_a_branch_only_the_compared_turn_counts_and_scripted_agents_never():
    branch = [episode(("a_0", "x", 0, 0), ("b_0", "y", 3, 0), ("c_0", "z", 5, 0), branch=2) for _ in range(8)]
    assert {name.split("/")[0] for name in behaviour(branch)} == {"team", "c_0"}


# ------------------------------------------------------------------ real runs


def watched(game, updates, *, team=None, policy=None, health=None, seed=0, **settings):
    """Train a word team; return its alarms and its metrics."""
    team = team or word_team(list(game().possible_agents))
    plan = {"policy_lr": 5e-3, "critic_lr": 1e-2, "discount": 1.0, "micro_batch": 256} | settings
    alarms, rows = [], []
    Trainer(
        game,
        team,
        Learner(team, LearnerSettings(**plan)),
        TrainingSchedule(updates=updates, groups=32, group_size=1, seed=seed),
        policy=policy,
        on_update=lambda update, metrics: rows.append(dict(metrics)),
        health=health,
        on_alarm=alarms.append,
    ).run()
    return alarms, rows


def kinds_of(alarms):
    return {(alarm.agent, alarm.kind, alarm.measure) for alarm in alarms}


class Fickle(Probe):
    """Pays for some actions, and after so many games for none any more."""

    speakers = ("solo_0",)
    games = 0
    until = 0

    def draw(self, rng):
        self.answer, self.digit = "", rng.integers(3)
        type(self).games += 1

    def observe(self, agent):
        return f"digit {self.digit}"

    def step(self, action):
        super().step(action)
        if action is not None:
            paid = self.games <= self.until and self.likes(action.split())
            self.rewards = dict.fromkeys(self.agents, float(paid))


class OneWord(Fickle):
    """Likes the word "a"."""

    def likes(self, words):
        return words == ["a"]


class Terse(Fickle):
    """Likes to hear less than two words."""

    def likes(self, words):
        return len(words) < 2


@pytest.fixture(autouse=True)
def no_games_yet():
    Fickle.games = OneWord.games = Terse.games = 0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_team_that_learns_raises_nothing_and_every_flag_is_there(seed):
    alarms, rows = watched(Market, 9, ppo_epochs=2, policy_lr=1e-2, seed=seed)
    assert alarms == []
    assert rows[-1]["team/return"] > 2 * rows[0]["team/return"]
    assert all(row[f"{a}/alarm_{kind}"] == 0.0 for row in rows for a in ("buyer_0", "seller_0") for kind in KINDS)


def test_a_team_that_has_found_the_one_right_word_raises_nothing():
    OneWord.until = 10**9
    team = word_team(["solo_0"], sampling=SamplingParams(max_new_tokens=1))
    alarms, rows = watched(OneWord, 14, team=team, policy_lr=0.03, health=HealthSettings(alarm_window=3))
    assert alarms == []
    assert rows[-1]["team/return"] > 0.9
    assert rows[-1]["solo_0/entropy"] < 0.15 * rows[0]["solo_0/entropy"]


def test_a_policy_that_knows_one_word_when_it_pays_no_more_has_collapsed():
    OneWord.until = 7 * 32
    team = word_team(["solo_0"], sampling=SamplingParams(max_new_tokens=1))
    settings = HealthSettings(alarm_window=3, alarm_entropy_share=0.15)
    alarms, rows = watched(OneWord, 14, team=team, policy_lr=0.03, health=settings)
    assert kinds_of(alarms) >= {("solo_0", "collapse", "entropy"), ("solo_0", "collapse", "same_share")}
    assert min(alarm.update for alarm in alarms) >= 7
    assert rows[-1]["solo_0/alarm_collapse"] == 1.0


def test_answers_that_shrank_for_nothing_are_drift_and_idleness():
    Terse.until = 2 * 32
    team = word_team(["solo_0"], sampling=SamplingParams(max_new_tokens=12))
    settings = HealthSettings(alarm_window=2, alarm_kl=100, alarm_ratio=1e30)
    alarms, rows = watched(Terse, 5, team=team, policy_lr=0.1, ppo_epochs=2, health=settings)
    assert rows[0]["solo_0/tokens_mean"] > 4 * rows[-1]["solo_0/tokens_mean"]
    assert kinds_of(alarms) >= {("solo_0", "length", "tokens_mean"), ("solo_0", "lazy", "tokens_mean")}


def test_a_step_size_of_one_explodes():
    alarms, rows = watched(Market, 2, policy_lr=1.0, ppo_epochs=2)
    assert {alarm.kind for alarm in alarms} == {"explosion"}
    assert {alarm.agent for alarm in alarms} == {"buyer_0", "seller_0"}
    assert rows[0]["buyer_0/alarm_explosion"] == 1.0


@pytest.mark.parametrize(("compounding", "raised"), [("happo", True), ("bounded", False)])
def test_a_large_step_compounds_ratios_unless_they_are_bounded(compounding, raised):
    team = word_team(list(CopyDigit.speakers), sampling=SamplingParams(max_new_tokens=16))
    plan = {"compounding": compounding, "credit": "round", "policy_lr": 0.05}
    alarms, rows = watched(CopyDigit, 1, team=team, **plan)
    assert [(alarm.agent, alarm.kind) for alarm in alarms if alarm.measure == "compounded_ratio_max"] == (
        [("actor_0", "explosion")] if raised else []
    )
    assert (rows[0]["actor_0/compounded_ratio_max"] > 100) == raised


def test_a_peaked_policy_that_turns_into_noise_explodes():
    team = word_team(list(Market().possible_agents), spread=1.0)
    alarms, rows = watched(Market, 3, team=team, policy_lr=1e6)
    assert rows[0]["buyer_0/entropy"] < 0.5
    assert ("buyer_0", "explosion", "entropy") in kinds_of(alarms)


class Opponents(CopyDigit):
    """Zero-sum rewards: one agent's gain is the other's loss."""

    def step(self, action):
        super().step(action)
        if action is not None and any(self.terminations.values()):
            win = 2 * self.rewards["speaker_0"] - 1
            self.rewards = {"speaker_0": win, "actor_0": -win}


def test_a_game_that_sums_to_zero_stalls_and_says_why():
    alarms, rows = watched(Opponents, 4, health=HealthSettings(alarm_window=3))
    assert ("team", "stall", "return_std") in kinds_of(alarms)
    assert "sums to zero over the agents" in alarms[0].sentence
    assert [row["team/alarm_stall"] for row in rows] == [0.0, 0.0, 1.0, 1.0]


class Parrot:
    """A team in which one agent says the same tokens, whatever it is asked."""

    def __init__(self, team, agent, action):
        self.team, self.agent, self.action = team, agent, action

    def act(self, requests):
        said = zip(requests, self.team.act(requests), strict=True)
        return [replace(self.action, prompt_ids=a.prompt_ids) if r.agent == self.agent else a for r, a in said]


def test_an_agent_that_says_the_same_from_the_start_is_lazy_and_its_partner_is_not():
    team = word_team(list(CopyDigit.speakers))
    ids = np.asarray(team.local_agent("speaker_0").base.tokenizer.encode("0 1"), np.int32)
    action = Action("0 1", np.zeros(0, np.int32), ids, np.full(2, -2.7, np.float32), False, exact=False)
    alarms, rows = watched(CopyDigit, 5, team=team, policy=Parrot(team, "speaker_0", action))
    assert kinds_of(alarms) == {("speaker_0", "lazy", "same_share")}
    assert (rows[-1]["speaker_0/alarm_lazy"], rows[-1]["actor_0/alarm_lazy"]) == (1.0, 0.0)
