"""Branches: siblings share what they must share, and the credit they give is the counterfactual one."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest

from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.policies.policy import text_action
from marft_agents.rollouts.branching import TURNS, branch
from marft_agents.rollouts.prompt_groups import AllEpisodesFailedError, GroupSettings
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.trajectory import EpisodeStart
from tests.helpers.chooser import Chooser, spell
from tests.helpers.fakes import Market, RouteToExpert, word_team
from tests.helpers.naive import adapters, moved
from tests.helpers.played_groups import gather
from tests.helpers.rows import credited

C3 = {"baseline": "leave_one_out", "compare": "turn", "centring": "none"}


def player(make_env, policy, *, seed=0, **knobs):
    """Return what `branch` and `gather` play with."""
    return lambda episodes: collect(make_env, policy, episodes, seed=seed, encode=spell, **knobs)


def branched(make_env, policy, *, episodes=4, alternatives=3, seed=0, choice=None, **knobs):
    """Return base trajectories and their branches."""
    plan = training_episodes(seed, 0, episodes, 1)
    play = player(make_env, policy, seed=seed, **knobs)
    played = play(plan)
    return played, branch(play, plan, played, alternatives=alternatives, seed=seed, **(choice or {}))


def groups_of(branches):
    """Return the groups of all episodes: group -> trajectories."""
    groups = defaultdict(list)
    for trajectory in itertools.chain.from_iterable(found.trained for found in branches):
        groups[trajectory.group].append(trajectory)
    return groups


def summary(trajectory):
    turns = [(t.agent, t.round, t.reward, t.action.text, t.action.prompt_ids.tolist()) for t in trajectory.turns]
    return turns, trajectory.group, trajectory.branch, trajectory.failure, trajectory.final_prompt_ids.tolist()


# ------------------------------------------------------------------ a prescribed beginning


@pytest.mark.parametrize("threads", [0, 2])
def test_an_episode_that_begins_as_another_and_has_its_number_is_that_episode(threads):
    """So the randomness of a turn depends on (seed, number, turn) alone, not on who chose the turns before it."""
    base = EpisodeStart(7, 2, 11)
    [whole] = player(Market, Chooser())([base])
    for k in range(len(whole.turns) + 1):
        policy = Chooser()
        prefix = tuple(turn.action for turn in whole.turns[:k])
        [again] = player(Market, policy, step_threads=threads)([EpisodeStart(7, 2, 11, None, prefix)])
        assert summary(again) == summary(whole)
        assert policy.asked == [turn.agent for turn in whole.turns[k:]]  # nobody is asked about what is prescribed
        assert all(a.action is b.action for a, b in zip(again.turns[:k], whole.turns[:k], strict=True))
        assert again.infos == whole.infos


def test_a_beginning_longer_than_the_game_is_a_failure():
    [found] = player(Market, Chooser())([EpisodeStart(0, 0, 0, None, (text_action("a"),) * 8)])
    assert found.failure.startswith("replay: the game was over before turn 7; a replay needs an environment that is")


# ------------------------------------------------------------------ siblings


def test_siblings_share_their_history_and_differ_from_their_turn_on():
    policy = Chooser()
    played, branches = branched(lambda: Market(cut=True), policy)
    groups = groups_of(branches)
    assert [divmod(group, TURNS) for group in groups] == [(e, k) for e in range(4) for k in range(7)]
    for trajectories in groups.values():
        base, *siblings = trajectories
        k = base.branch
        assert len(siblings) == 2
        assert sum(base.turns is whole.turns for whole in played) == 1
        for sibling in siblings:
            assert (sibling.branch, sibling.seed, sibling.failure) == (k, base.seed, None)
            assert all(a.action is b.action for a, b in zip(base.turns[:k], sibling.turns[:k], strict=True))
            assert [t.reward for t in sibling.turns[:k]] == [t.reward for t in base.turns[:k]]
            seen = [t.turns[k].action.prompt_ids.tolist() for t in (base, sibling)]
            assert seen[0] == seen[1]
            assert sibling.turns[k].action is not base.turns[k].action
    for k in range(7):
        said = {t.turns[k].action.text for ts in groups.values() for t in ts if t.branch == k}
        assert len(said) > 4
    assert [len(found.siblings) for found in branches] == [14] * 4


def test_no_randomness_is_used_twice():
    policy = Chooser()
    grouping = GroupSettings(3, groups=4, group_size=2, extra_rounds=2, branches=4)
    for update in range(2):
        gather(player(lambda: Market(rounds=1), policy, seed=3), update, grouping)
    assert len(policy.streams) > 300
    assert len(set(policy.streams)) == len(policy.streams)


@pytest.mark.parametrize("knobs", [{"num_envs": 1}, {"num_envs": 3}, {"step_threads": 3}, {"step_threads": 1}])
def test_branches_do_not_depend_on_how_many_games_run_at_once(knobs):
    choice = {"most_turns": 3}
    played, wanted = branched(lambda: Market(cut=True), Chooser(), choice=choice, step_threads=0)
    again, found = branched(lambda: Market(cut=True), Chooser(), choice=choice, **knobs)
    assert [summary(t) for t in again] == [summary(t) for t in played]
    for one, other in zip(found, wanted, strict=True):
        assert [summary(t) for t in one.trained] == [summary(t) for t in other.trained]
        assert [summary(t) for t in one.siblings] == [summary(t) for t in other.siblings]


# ------------------------------------------------------------------ which turns


def turns_of(branches):
    return [sorted({t.branch for t in found.trained}) for found in branches]


def test_turns_without_tokens_and_of_other_agents_are_not_branched():
    _, branches = branched(Market, Chooser(mute={"seller_0"}))
    assert turns_of(branches) == [[0, 1, 3, 4]] * 4  # the buyer's
    _, branches = branched(Market, Chooser(), choice={"agents": {"seller_0"}})
    assert turns_of(branches) == [[2, 5, 6]] * 4


def test_a_budget_of_turns_is_drawn_uniformly_and_for_each_episode_by_itself():
    _, branches = branched(Market, Chooser(), episodes=210, alternatives=2, choice={"most_turns": 2})
    chosen = turns_of(branches)
    assert {len(turns) for turns in chosen} == {2}
    shares = Counter(itertools.chain.from_iterable(chosen))
    assert set(shares) == set(range(7))
    assert all(abs(count - 60) < 5 * np.sqrt(60 * 5 / 7) for count in shares.values())
    _, fewer = branched(Market, Chooser(), episodes=20, alternatives=2, choice={"most_turns": 2})
    assert turns_of(fewer) == chosen[:20]
    _, long = branched(lambda: Market(rounds=20), Chooser(), episodes=1, alternatives=2)
    assert turns_of(long) == [list(range(24))]
    for enough in (7, 9):
        _, all_turns = branched(Market, Chooser(), episodes=2, alternatives=2, choice={"most_turns": enough})
        assert turns_of(all_turns) == [list(range(7))] * 2


# ------------------------------------------------------------------ what goes wrong


class Allergic(Market):
    """Its judge breaks down whenever somebody says "b"."""

    def step(self, action):
        if action == "b":
            raise ConnectionError("the judge is gone")
        super().step(action)


@pytest.mark.parametrize("threads", [0, 3])
def test_siblings_whose_judge_breaks_down_are_dropped_and_so_are_groups_of_one(threads):
    policy = Chooser(words=["a", "b", "1", "2", "3", "4"])
    played, branches = branched(lambda: Allergic(rounds=1), policy, episodes=30, alternatives=2, step_threads=threads)
    failed = [trajectory.failure is not None for trajectory in played]
    assert 0 < sum(failed) < 30
    assert all(not found.siblings for found, lost in zip(branches, failed, strict=True) if lost)
    siblings = [sibling for found in branches for sibling in found.siblings]
    causes = {None if s.failure is None else s.failure.partition(" (tests/")[0] for s in siblings}
    assert causes >= {None, "step of seller_0: ConnectionError: the judge is gone"}
    for sibling in siblings:
        assert (sibling.failure is None) == any(sibling is t for found in branches for t in found.trained)
    assert {len(group) for group in groups_of(branches).values()} == {2}


class Moody(Market):
    """Not what it was: `change` alters a game that is played again, that is from the second reset of a seed on."""

    known: set

    def __init__(self, change, known):
        super().__init__()
        self.change, self.known = change, known

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.again = seed in self.known
        self.known.add(seed)

    def observe(self, agent):
        altered = self.again and self.change == f"sight {self.turn}"
        return super().observe(agent) + " ?" * altered

    def step(self, action):
        super().step(action)
        if self.again and self.change == "reward" and self.turn == 1:
            self.rewards["seller_0"] += 0.5
        if self.again and self.change == "order" and self.turn == 1:
            self.agent_selection = "seller_0"
        if self.again and self.change == "end":
            self.terminations = dict.fromkeys(self.agents, True)


SIGHT = "buyer_0 sees another prompt than was recorded; a replay needs an environment that is deterministic"


@pytest.mark.parametrize(
    ("change", "first", "failures"),
    [
        ("none", 7, {}),
        ("sight 0", 0, {0: f"replay of turn 0: {SIGHT}", 1: f"replay of turn 0: ReplayError: {SIGHT}"}),
        ("sight 1", 1, {1: f"replay of turn 1: {SIGHT}", 6: f"replay of turn 1: ReplayError: {SIGHT}"}),
        ("reward", 1, {1: "replay of turn 0: reward ", 6: "replay of turn 0: reward "}),
        ("order", 1, {1: "replay of turn 1: agent 'buyer_0' was recorded, found 'seller_0'; a replay needs"}),
        ("end", 1, {1: "replay: the game was over before turn 1; a replay needs", 3: "replay: the game was over"}),
    ],
)
def test_an_environment_that_does_not_repeat_itself_is_found_out(change, first, failures):
    """All branches from turn `first` on fail; those before it cannot tell."""
    known = set()
    _, [found] = branched(lambda: Moody(change, known), Chooser(), episodes=1, alternatives=2)
    causes = {sibling.branch: sibling.failure for sibling in found.siblings}
    assert [k for k, cause in causes.items() if cause is not None] == list(range(first, 7))
    for k, cause in failures.items():
        assert causes[k].startswith(cause)
    assert sorted({t.branch for t in found.trained}) == list(range(first))


def test_an_update_without_any_branch_stops_with_the_cause():
    known = set()
    with pytest.raises(
        AllEpisodesFailedError, match="all 14 branches of the update failed; the first: replay of turn 0"
    ):
        gather(player(lambda: Moody("sight 0", known), Chooser()), 0, GroupSettings(0, 2, 1, branches=2))


# ------------------------------------------------------------------ credit


def by_hand(seed, words):
    """Return what the team earns when the router says each of some words: the game played without any of our code."""
    earned = []
    for word in words:
        env = RouteToExpert()
        env.reset(seed=seed)
        env.step(word)
        env.step(answer(env.observe(env.agent_selection)))
        earned.append(env.rewards["router_0"])
    return np.array(earned)


def answer(observation):
    value = observation.split()[1]
    return "0" if value == "?" else value


def test_credit_of_a_turn_is_what_the_team_loses_by_the_alternatives():
    """The experts follow rules, so a word's worth can be counted: R(word) minus the mean R of its alternatives."""
    policy = Chooser({"expert_0": answer, "expert_1": answer})
    _, branches = branched(RouteToExpert, policy, episodes=12, alternatives=4)
    settings = LearnerSettings(**C3, scaling="none", discount=1.0, branches=4)
    followers, credits = set(), []
    for group in groups_of(branches).values():
        samples = credited(group, [], {}, settings)
        found = np.concatenate([sample.advantages for sample in samples])
        if group[0].branch == 0:
            earned = by_hand(group[0].seed, [t.turns[0].action.text for t in group])
            wanted = earned - (earned.sum() - earned) / 3
            followers |= {t.turns[1].agent for t in group}
        else:
            wanted = np.zeros(4)  # whoever follows a rule has no alternatives
        assert found == pytest.approx(wanted, abs=1e-12)
        assert {sample.agent for sample in samples} == {group[0].turns[group[0].branch].agent}
        credits += found.tolist()
    assert followers == {"expert_0", "expert_1"}  # alternatives may lead to other agents
    assert min(credits) < -0.3
    assert max(credits) > 0.3


# ------------------------------------------------------------------ training


def test_what_is_reported_are_the_base_episodes():
    def metrics_of(policy_lr=1e-2, **knobs):
        team = word_team(["buyer_0", "seller_0"])
        before = adapters(team)
        settings = LearnerSettings(policy_lr=policy_lr, **knobs)
        schedule = TrainingSchedule(groups=4, group_size=1, branched_turns=2 if knobs else 0)
        metrics = Trainer(Market, team, Learner(team, settings), schedule).step()
        return metrics, moved(before, adapters(team))

    plain, _ = metrics_of()
    found, changed = metrics_of(**C3, branches=3)
    other = ("team/branches", "team/extra_tokens", "team/informative_groups", "team/prompt_cache_hits")
    same = [name for name in plain if name.startswith("team/") and name not in other and not name.endswith("_sum")]
    assert len(same) > 6
    assert {name: found[name] for name in same} == {name: plain[name] for name in same}
    assert (plain["team/branches"], plain["team/extra_tokens"], plain["team/draws"]) == (0, 0, 4)
    assert (found["team/branches"], found["team/branches_failed"]) == (4 * 2 * 2, 0)
    assert 16 < found["team/extra_tokens"] <= 16 * 14
    assert 0 < found["team/informative_groups"] <= 1
    assert changed == {"buyer_0", "seller_0"}


def test_tokens_of_branches_are_those_sampled_and_only_learning_agents_are_branched():
    team = word_team({"buyer_0": "buyer_0", "seller_0": None})
    records = []
    learner = Learner(team, LearnerSettings(**C3, branches=2))
    trainer = Trainer(lambda: Market(cut=True), team, learner, TrainingSchedule(groups=2, group_size=1))
    player = trainer.rollouts.player
    play = player._collect
    player._collect = lambda episodes: records.append((episodes, play(episodes))) or records[-1][1]
    metrics = trainer.step()
    plan, siblings = records[1]
    assert sorted({len(episode.prefix) for episode in plan}) == [0, 1, 3, 4]
    new = sum(len(t.action.token_ids) for e, s in zip(plan, siblings, strict=True) for t in s.turns[len(e.prefix) :])
    assert all(sibling.truncated and not sibling.final_agent for sibling in siblings)  # only the seller is cut off
    assert metrics["team/extra_tokens"] == new < sum(s.num_tokens for s in siblings)
    assert all(sibling.turns[len(e.prefix)].agent == "buyer_0" for e, sibling in zip(plan, siblings, strict=True))
