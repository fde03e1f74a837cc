"""Shapley and leave-one-out values of games worked by hand, and of teams whose contributions are known."""

import itertools
import json
import math

import numpy as np
import pytest

from baselines.attribution.coalitions import (
    CoalitionGames,
    CoalitionResult,
    coalitions,
    leave_one_out,
    mixed,
    oracle,
    shapley,
    silent,
    untrained,
)
from baselines.attribution.run import (
    AttributionPlan,
    EpisodeCost,
    coalition_files,
    cost,
    marginals,
    missing,
    play,
    summary,
)
from baselines.experiment.gold_answers import NoOracleError, check_oracle
from marft_agents.policies.policy import Request
from marft_agents.policies.scripted import RandomPolicy, ScriptedPolicy
from marft_agents.rollouts.recorded_game import ReplayError
from marft_agents.runs.folder_lock import RunFolderError
from marft_envs import FlexMG, Profile, Task, Team
from marft_envs.dependency import chain, full
from marft_envs.tasks.math import MathTasks
from tests.helpers.fakes import Broken, CopyDigit, RelayDigit, word_team

ABC = ["a", "b", "c"]


def game_of(value, players=ABC):
    return {coalition: value(coalition) for coalition in coalitions(players, "shapley")}


def values(marginals_):
    return {agent: float(marginal.value) for agent, marginal in marginals_.items()}


# ------------------------------------------------------------------ games worked by hand


def test_glove_game():
    """One left glove, two right ones, and a pair is worth 1: left gets 4/6 of the orders, each right 1/6."""
    found = values(shapley(game_of(lambda s: float("a" in s and bool(s & {"b", "c"}))), ABC))
    assert found == pytest.approx({"a": 2 / 3, "b": 1 / 6, "c": 1 / 6})


def test_additive_game_gives_each_its_own_share():
    weights = {"a": 0.5, "b": 0.25, "c": -0.125}
    found = values(shapley(game_of(lambda s: sum(weights[i] for i in s)), ABC))
    assert found == pytest.approx(weights)


def test_a_player_alone_decides_and_the_others_are_dummies():
    assert values(shapley(game_of(lambda s: float("b" in s)), ABC)) == pytest.approx({"a": 0, "b": 1, "c": 0})


def test_one_player():
    assert values(shapley(game_of(lambda s: 0.75 if s else 0.5, ["a"]), ["a"])) == {"a": 0.25}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_shapley_values_are_means_over_all_orders_and_sum_to_the_total(count):
    players = [f"agent_{i}" for i in range(count)]
    rng = np.random.default_rng(count)
    game = {coalition: rng.random(5) for coalition in coalitions(players, "shapley")}
    by_orders = {player: [] for player in players}
    for order in itertools.permutations(players):
        for place, player in enumerate(order):
            by_orders[player].append(game[frozenset(order[: place + 1])] - game[frozenset(order[:place])])
    found = shapley(game, players)
    for player in players:
        assert found[player].value == pytest.approx(np.mean(by_orders[player], axis=0))
        assert np.all((found[player].without >= 0) & (found[player].joined <= 1))  # weighted shares
    total = sum(marginal.value for marginal in found.values())
    assert total == pytest.approx(game[frozenset(players)] - game[frozenset()])


def test_leave_one_out_of_two_that_are_both_necessary_gives_each_everything():
    game = game_of(lambda s: float({"a", "b"} <= s))
    assert values(leave_one_out(game, ABC)) == {"a": 1.0, "b": 1.0, "c": 0.0}


def test_coalitions_begin_with_the_whole_team():
    assert [len(one) for one in coalitions(ABC, "shapley")] == [3, 2, 2, 2, 1, 1, 1, 0]
    assert coalitions(ABC, "loo") == [frozenset(ABC), frozenset("ab"), frozenset("ac"), frozenset("bc")]


# ------------------------------------------------------------------ teams


def word_after(observation):
    return observation.split()[-1]


CAPABLE = ScriptedPolicy(lambda agent, observation: word_after(observation))
SEEDS = [{"seed": seed} for seed in range(6)]


def plan_of(players, scenarios=SEEDS, **others):
    return AttributionPlan(tuple(players), "shapley", "silence", (), scenarios, **others)


def test_in_the_copy_game_both_are_necessary(tmp_path):
    plan = plan_of(CopyDigit.speakers)
    results, edges = play(plan, silent(CopyDigit, CAPABLE, CopyDigit.speakers), tmp_path)
    assert [list(result.value) for result in results] == [[1] * 6, [0] * 6, [0] * 6, [0] * 6]
    found = summary(plan, results, edges)
    assert {agent: one["mean"] for agent, one in found["agents"].items()} == {"speaker_0": 0.5, "actor_0": 0.5}
    assert found["total"]["mean"] == 1.0
    assert found["agents"]["actor_0"]["per_scenario"] == [0.5] * 6


def test_an_agent_whose_replacement_is_as_good_contributes_nothing(tmp_path):
    """The stand-in of agent_1 passes the digit on just as the agent itself; the two others share the success."""
    idle = ScriptedPolicy(lambda agent, observation: word_after(observation) if agent == "agent_1" else "?")

    def replaced(agents):
        return RelayDigit, mixed(CAPABLE, idle, RelayDigit.speakers, agents)

    plan = plan_of(RelayDigit.speakers)
    results, _ = play(plan, replaced, tmp_path)
    found = {agent: marginal.value.mean() for agent, marginal in marginals(plan, results).items()}
    assert found == pytest.approx({"agent_0": 0.5, "agent_1": 0.0, "agent_2": 0.5})


def test_untrained_agents_play_the_bare_base_of_the_same_model():
    team = word_team(CopyDigit.speakers, stir=0.5)
    make_env, mixture = untrained(CopyDigit, team)(frozenset({"speaker_0"}))
    assert make_env is CopyDigit
    assert mixture.bases == team.bases  # no second copy in memory
    assert {agent: local.adapter for agent, local in mixture.local_agents.items()} == {
        "speaker_0": None,
        "actor_0": "actor_0",
    }

    def said(policy, agent):
        requests = [Request(agent, f"digit {n}", np.random.default_rng(n)) for n in range(8)]
        return [action.text for action in policy.act(requests)]

    bare = word_team(CopyDigit.speakers)  # LoRA starts at zero: the base itself
    assert said(mixture, "speaker_0") == said(bare, "speaker_0") != said(team, "speaker_0")
    assert said(mixture, "actor_0") == said(team, "actor_0") != said(bare, "actor_0")


def test_failed_scenarios_are_left_out_everywhere(tmp_path):
    players = ("buyer_0", "seller_0")
    plan = plan_of(players)
    policy = ScriptedPolicy(lambda agent, observation: "a")
    results, _ = play(plan, silent(lambda: Broken("step"), policy, players), tmp_path)
    found = summary(plan, results, ())
    assert found["scored_scenarios"] == 3  # even seeds fail
    assert found["agents"]["buyer_0"]["per_scenario"][0] is None
    assert found["coalitions"][0]["failed"] == 3
    broken = plan_of(players, [{"seed": 0}, {"seed": 2}])
    results, _ = play(broken, silent(lambda: Broken("step"), policy, players), tmp_path / "broken")
    with pytest.raises(ValueError, match="first cause: step of buyer_0: RuntimeError: the roof fell in"):
        summary(broken, results, ())


# ------------------------------------------------------------------ replay


def toy_game(**keywords):
    names = ("a_0", "b_0", "c_0")
    tasks = [Task(f"add-{n}", f"What is {n} + 1?", str(n + 1), "train") for n in range(7)]
    profiles = tuple(Profile(name, f"You are {name}.", answers=name == "c_0") for name in names)
    return FlexMG(MathTasks("toy", tasks), Team("toy", profiles, keywords.pop("dependency", chain())), **keywords)


def told(trajectories):
    return sorted(
        (t.seed, tuple((turn.agent, turn.action.text, turn.reward) for turn in t.turns)) for t in trajectories
    )


class Counted:
    """Policy that counts its requests."""

    def __init__(self, policy):
        self.policy, self.asked = policy, 0

    def act(self, requests):
        self.asked += len(requests)
        return self.policy.act(requests)


@pytest.mark.parametrize("dependency", [chain(), full(delayed="all")])
def test_replayed_turns_change_nothing(dependency):
    """Random policies show it best: any shift of a turn's random numbers changes its text."""

    def make_env():
        return toy_game(horizon=2, dependency=dependency)

    agents, trained, other = ("a_0", "b_0", "c_0"), Counted(RandomPolicy(20)), RandomPolicy(5)
    ended = []
    games = CoalitionGames(
        lambda replaced: (make_env, mixed(trained, other, agents, replaced)),
        agents,
        [{"index": n} for n in range(4)],
        seeds=(0, 1),
        on_end=ended.append,
    )
    whole = games.play(frozenset(agents))
    for coalition in coalitions(agents, "shapley")[1:]:
        found = []
        for record in (None, whole):
            ended.clear()
            trained.asked = 0
            scores = games.play(coalition, record).scores
            found.append((told(ended), scores.tolist(), trained.asked))
        assert found[0][:2] == found[1][:2]
        opening = [agent in coalition for agent in agents].index(False)
        assert found[0][2] - found[1][2] == 8 * opening  # the turns before the first replaced agent


def test_replay_of_a_language_model_team_changes_nothing():
    team = word_team(RelayDigit.speakers, stir=0.5)
    ended = []
    games = CoalitionGames(untrained(RelayDigit, team), RelayDigit.speakers, SEEDS[:3], on_end=ended.append)
    whole = games.play(frozenset(RelayDigit.speakers))
    assert whole.generated_tokens > 0
    for coalition in map(frozenset, (["agent_0", "agent_1"], ["agent_0", "agent_2"], ["agent_1", "agent_2"])):
        found = []
        for record in (None, whole):
            ended.clear()
            found.append((games.play(coalition, record), told(ended)))
        assert found[0][1] == found[1][1]
        assert (found[1][0].generated_tokens < found[0][0].generated_tokens) == ("agent_0" in coalition)


def test_an_environment_that_is_not_deterministic_is_refused():
    class Forgetful(FlexMG):
        resets = 0

        def reset(self, seed=None, options=None):
            Forgetful.resets += 1
            super().reset(seed, {"index": Forgetful.resets % 7})

    def make_env():
        game = toy_game()
        return Forgetful(game.tasks, game.team)

    agents = ("a_0", "b_0", "c_0")
    games = CoalitionGames(silent(make_env, RandomPolicy(), agents), agents, [{"index": 0}])
    whole = games.play(frozenset(agents))
    with pytest.raises(ReplayError, match=r"replay of turn 0: observation .* deterministic"):
        games.play(frozenset({"a_0", "b_0"}), whole)


def test_results_survive_json():
    games = CoalitionGames(silent(lambda: Broken("step"), CAPABLE, ("buyer_0", "seller_0")), ("buyer_0",), SEEDS)
    result = games.play(frozenset({"buyer_0"}))
    again = CoalitionResult.from_dict(json.loads(json.dumps(result.to_dict())))
    np.testing.assert_array_equal(again.scores, result.scores)
    assert again.to_dict() == result.to_dict()
    assert math.isnan(again.value[0])


# ------------------------------------------------------------------ resume


def test_a_killed_attribution_goes_on_where_it_was(tmp_path):
    plan = plan_of(RelayDigit.speakers)
    replaced = silent(RelayDigit, RandomPolicy(3), RelayDigit.speakers)
    ended = []
    fresh = play(plan, replaced, tmp_path / "fresh", ended.append)[0]
    assert len(ended) == 8 * 6

    def killed(trajectory):
        ended.append(trajectory)
        if len(ended) == 15:  # in the third coalition
            raise KeyboardInterrupt

    ended.clear()
    with pytest.raises(KeyboardInterrupt):
        play(plan, replaced, tmp_path / "killed", killed)
    files = list(coalition_files(plan, tmp_path / "killed").values())
    assert [file.is_file() for file in files] == [True, True] + [False] * 6
    assert missing(plan, tmp_path / "killed") == 36
    ended.clear()
    resumed = play(plan, replaced, tmp_path / "killed", ended.append)[0]
    assert len(ended) == 36
    assert [one.scores.tolist() for one in resumed] == [one.scores.tolist() for one in fresh]
    ended.clear()
    play(plan, replaced, tmp_path / "killed", ended.append)
    assert ended == []


def test_a_folder_of_another_attribution_is_refused(tmp_path):
    replaced = silent(CopyDigit, CAPABLE, CopyDigit.speakers)
    play(plan_of(CopyDigit.speakers), replaced, tmp_path)
    with pytest.raises(RunFolderError, match=r"holds another attribution: its seeds is \[0\], this one's \[1\]"):
        play(plan_of(CopyDigit.speakers, seeds=(1,)), replaced, tmp_path)


# ------------------------------------------------------------------ oracle and cost


def test_the_oracle_plays_the_gold_answer():
    agents = ("a_0", "b_0", "c_0")
    make_env, policy = oracle(toy_game, ScriptedPolicy(lambda agent, observation: "no idea"), agents)(
        frozenset({"c_0"})
    )
    games = CoalitionGames(lambda _: (make_env, policy), agents, [{"index": n} for n in range(3)])
    assert games.play(frozenset()).value.tolist() == [1, 1, 1]
    check_oracle(toy_game, {"index": 2})


def test_no_oracle():
    with pytest.raises(NoOracleError, match="needs a Flex-MG"):
        check_oracle(CopyDigit, {"seed": 0})

    def never_right():
        game = toy_game()
        return FlexMG(MathTasks("never", game.tasks, grader=lambda response, gold: Wrong()), game.team)

    class Wrong:
        correct, extracted = False, None

    with pytest.raises(NoOracleError, match="task 'add-0' is not solved"):
        check_oracle(never_right, {"index": 0})


def test_the_cost_counts_generated_turns_only():
    each = EpisodeCost(10.0, 2.0, "in training")
    plan = plan_of(("a_0", "b_0", "c_0"))
    found = cost(plan, each, toy_game())
    assert (found.coalitions, found.edges, found.episodes) == (8, 0, 48)
    # silent agents cost nothing; from the first one on: abc 3, ab 0, ac 1, bc 2, a 0, b 1, c 1, none 0 of 3 turns
    assert found.generated == pytest.approx(6 * 8 / 3)
    assert "160 tokens and 0.5 min" in str(found)
    assert cost(plan, each, None).generated == 48
