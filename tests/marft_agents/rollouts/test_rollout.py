"""Rollouts of any AEC environment: a third-party game, broken games, truncation, and what numbers depend on."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from pettingzoo import AECEnv

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.chat_template import encode
from marft_agents.models.context_window import ContextOverflowError
from marft_agents.monitoring.cost_ledger import ledger_of
from marft_agents.policies.policy import Request, failed_action, text_action
from marft_agents.policies.scripted import MixedPolicy, RandomPolicy, ScriptedPolicy
from marft_agents.rollouts.prompt_groups import AllEpisodesFailedError
from marft_agents.rollouts.rollout import EpisodeStart, collect, draw_seed, training_episodes
from marft_agents.rollouts.text_spaces import refuse_unsuitable
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from tests.helpers.fakes import ANY_TEXT, Broken, CopyDigit, Market, word_team
from tests.helpers.naive import adapters, moved

MARKET = ("buyer_0", "seller_0")
ALWAYS_A = ScriptedPolicy(lambda agent, observation: "a")


def market(**knobs):
    return lambda: Market(**knobs)


def one(make_env, policy=ALWAYS_A, **knobs):
    [trajectory] = collect(make_env, policy, [EpisodeStart(0, 0, 0)], seed=0, **knobs)
    return trajectory


def summary(trajectory):
    return [(t.agent, t.round, t.reward, t.action.text, t.action.token_ids.tolist()) for t in trajectory.turns]


# ------------------------------------------------------------------ a third-party game


def test_the_third_party_game_keeps_to_the_aec_api():
    env = Market()
    env.reset(seed=1)
    seen = []
    for agent in env.agent_iter(max_iter=50):
        observation, _, terminated, truncated, _ = env.last()
        assert type(observation) is str
        assert env.observation_space(agent).contains(observation)
        seen.append(agent)
        env.step(None if terminated or truncated else "a")
    assert env.agents == []
    assert (
        "".join(a[0] for a in seen) == "bbsbbbsss"
    )  # two acts per round, the buyer's last step, seller alone, its last


def test_turns_rewards_rounds_and_end_of_a_game_whose_agents_leave_at_different_times():
    trajectory = one(market())
    assert [t.agent[0] for t in trajectory.turns] == list("bbsbbss")
    # who acts is paid 1 for "a", the other nothing: the team reward is the mean over the agents that are left
    assert [t.reward for t in trajectory.turns] == [0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0]
    assert trajectory.turns[0].round == 0
    assert [t.round for t in trajectory.turns] == sorted(t.round for t in trajectory.turns)
    assert (trajectory.terminated, trajectory.truncated, trajectory.failure) == (True, False, None)
    assert set(trajectory.infos) == {"price"}  # numbers only; the array is left out


class ClosingTime(Market):
    """The clock cuts both agents off after the first round."""

    def step(self, action):
        alive = not (self.terminations[self.agent_selection] or self.truncations[self.agent_selection])
        super().step(action)
        if alive and self.turn == 3:
            self.truncations = dict.fromkeys(self.agents, True)


@pytest.mark.parametrize(
    ("make_env", "turns", "final_agent"),
    [
        (market(cut=True), "bbsbbss", "seller_0"),  # the buyer has terminated: it has no future to value
        (ClosingTime, "bbs", "buyer_0"),  # the next round would be the buyer's
    ],
)
def test_truncation_records_the_prompt_of_who_would_act_next(make_env, turns, final_agent):
    team = word_team(MARKET)
    trajectory = one(make_env, team, encode=team.encode)
    assert "".join(t.agent[0] for t in trajectory.turns) == turns
    assert (trajectory.terminated, trajectory.truncated, trajectory.final_agent) == (False, True, final_agent)
    env = make_env()
    env.reset(seed=0)
    actions = iter(t.action.text for t in trajectory.turns)
    for _ in trajectory.turns:
        while env.terminations[env.agent_selection]:
            env.step(None)
        env.step(next(actions))
    wanted = encode(team.local_agent(final_agent).base.tokenizer, env.observe(final_agent)).ids
    assert trajectory.final_prompt_ids.tolist() == wanted.tolist()
    assert trajectory.final_prompt_ids.dtype == np.int32


def test_a_truncated_episode_whose_next_prompt_is_too_long_is_not_bootstrapped():
    def encode(agent, observation):
        raise ContextOverflowError("too long")

    trajectory = one(market(cut=True), word_team(MARKET), encode=encode)
    assert (trajectory.truncated, trajectory.failure, trajectory.final_agent) == (True, None, "")
    assert len(trajectory.final_prompt_ids) == 0


def test_what_terminates_and_truncates_at_once_has_terminated():
    class Ends(Market):
        def step(self, action):
            super().step(action)
            if self.turn == 2:
                self.terminations = dict.fromkeys(self.agents, True)
                self.truncations = dict.fromkeys(self.agents, True)

    trajectory = one(Ends)
    assert (trajectory.terminated, trajectory.truncated) == (True, False)


def test_a_cut_off_scripted_agent_has_no_value():
    team = word_team(["buyer_0"])
    mixed = MixedPolicy({"buyer_0": team, "seller_0": ALWAYS_A})
    trajectory = one(market(cut=True), mixed, encode=team.encode)
    assert trajectory.truncated
    assert trajectory.final_agent == ""
    assert len(trajectory.final_prompt_ids) == 0


def test_the_team_trains_on_the_third_party_game():
    team = word_team(MARKET, sampling=SamplingParams(max_new_tokens=1))
    refuse_unsuitable(Market())
    settings = LearnerSettings(policy_lr=1e-2, critic_lr=1e-2, entropy_bonus=0.05, ppo_epochs=2, micro_batch=256)
    history = []
    trainer = Trainer(
        market(rounds=2),
        team,
        Learner(team, settings),
        TrainingSchedule(updates=12, groups=16, group_size=1),
        on_update=lambda update, metrics: history.append(metrics["team/return"]),
    )
    before = adapters(team)
    trainer.run()
    assert moved(before, adapters(team)) == set(MARKET)
    assert np.mean(history[-3:]) > 3 * history[0]  # from guessing to (nearly) always paid


# ------------------------------------------------------------------ agents that act at the same time


class Layers(AECEnv):
    """A game of a few rounds whose agents act in layers; it says who is ready, unless it is `quiet`."""

    metadata: ClassVar = {"name": "layers", "render_modes": [], "ready_agents": True}

    def __init__(self, layers=(("a_0", "b_0", "c_0"), ("d_0",)), rounds=2, quiet=False, raises_at=None):
        super().__init__()
        self.layers, self.rounds, self.raises_at, self.render_mode = layers, rounds, raises_at, None
        self.metadata = self.metadata | {"ready_agents": not quiet}
        self.possible_agents = [agent for layer in layers for agent in layer]

    def observation_space(self, agent):
        return ANY_TEXT

    action_space = observation_space

    def reset(self, seed=None, options=None):
        self.agents, self.said = list(self.possible_agents), []
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._tell()

    def _tell(self):
        now, done = divmod(len(self.said), len(self.possible_agents))
        self.agent_selection = self.possible_agents[done]
        current = next(i for i, layer in enumerate(self.layers) if self.agent_selection in layer)
        self.infos = {
            agent: {"round": now, "layer": i, "ready": int(i == current and self.possible_agents.index(agent) >= done)}
            for i, layer in enumerate(self.layers)
            for agent in layer
        }

    def observe(self, agent):
        """Show all words of earlier layers."""
        now = len(self.said) // len(self.possible_agents)
        layer = next(i for i, layer in enumerate(self.layers) if agent in layer)
        known = now * len(self.possible_agents) + sum(map(len, self.layers[:layer]))
        return " ".join(["heard", *self.said[:known]])

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        if agent == self.raises_at:
            raise RuntimeError("the roof fell in")
        self.said.append((action.split() or ["?"])[0])
        if len(self.said) == self.rounds * len(self.possible_agents):
            self.terminations = dict.fromkeys(self.agents, True)
        else:
            self._tell()


class Batches(ScriptedPolicy):
    """A policy that notes the agents of each batch."""

    def __init__(self, policy):
        self.policy, self.asked = policy, []

    def act(self, requests):
        self.asked.append("".join(request.agent[0] for request in requests))
        return self.policy.act(requests)


@pytest.mark.parametrize(
    ("layers", "batches"),
    [
        ((("a_0", "b_0", "c_0"), ("d_0",)), ["abc", "d"] * 2),
        ((("a_0", "b_0", "c_0", "d_0"),), ["abcd"] * 2),  # independent agents
        ((("a_0",), ("b_0",), ("c_0",), ("d_0",)), ["a", "b", "c", "d"] * 2),  # a chain
    ],
)
def test_the_agents_of_a_layer_are_generated_in_one_batch(layers, batches):
    policy = Batches(ALWAYS_A)
    trajectory = one(lambda: Layers(layers), policy)
    assert policy.asked == batches
    assert [turn.agent[0] for turn in trajectory.turns] == list("abcd" * 2)
    assert [turn.round for turn in trajectory.turns] == [0] * 4 + [1] * 4
    together = Batches(ALWAYS_A)
    collect(lambda: Layers(layers), together, training_episodes(0, 0, 3, 1), seed=0)
    assert together.asked == [batch * 3 for batch in batches]


@pytest.mark.parametrize("num_envs", [1, 7])
@pytest.mark.parametrize("threads", [0, 3])
def test_a_layer_in_one_batch_gives_the_trajectories_of_one_agent_after_the_other(num_envs, threads):
    team = word_team(["a_0", "b_0", "c_0", "d_0"], stir=0.3)
    episodes = training_episodes(3, 0, 6, 1)

    def played(quiet):
        knobs = {"num_envs": num_envs, "step_threads": threads, "encode": team.encode}
        return [summary(t) for t in collect(lambda: Layers(quiet=quiet), team, episodes, seed=3, **knobs)]

    assert played(False) == played(True)
    assert len({tuple(map(str, turns)) for turns in played(False)}) > 1


@pytest.mark.parametrize("beginning", range(8))
def test_an_episode_goes_on_after_a_beginning_within_a_layer(beginning):
    team = word_team(["a_0", "b_0", "c_0", "d_0"], stir=0.3)
    whole = one(Layers, team, encode=team.encode)
    prefix = tuple(turn.action for turn in whole.turns[:beginning])
    [again] = collect(Layers, team, [EpisodeStart(0, 0, 0, prefix=prefix)], seed=0, encode=team.encode)
    assert summary(again) == summary(whole)


@pytest.mark.parametrize(("raises_at", "lost"), [("a_0", "abc"), ("b_0", "bc"), ("c_0", "c"), ("d_0", "d")])
def test_actions_that_a_broken_layer_leaves_unplayed_are_kept_for_the_ledger(raises_at, lost):
    team = word_team(["a_0", "b_0", "c_0", "d_0"])
    broken = one(lambda: Layers(raises_at=raises_at), team)
    assert broken.failure.startswith(f"step of {raises_at}: RuntimeError: the roof fell in (tests/")
    assert "".join(turn.agent[0] for turn in broken.unplayed) == lost
    assert {(turn.round, turn.layer) for turn in broken.unplayed} == {(0, int(raises_at == "d_0"))}
    assert ledger_of([broken]).team.turns == len(broken.turns) + len(lost)


def test_an_agent_whose_policy_cannot_act_fails_the_episode_with_its_cause():
    class Fails(ScriptedPolicy):
        def act(self, requests):
            return [failed_action("no model") if r.agent == "b_0" else text_action("a") for r in requests]

    broken = one(Layers, Fails(str))
    assert broken.failure == "no model"
    assert [turn.agent for turn in broken.turns] == ["a_0"]
    assert [turn.agent for turn in broken.unplayed] == ["c_0"]


def test_the_limit_of_turns_holds_within_a_layer():
    assert "2 turns were played and the game is not over" in one(Layers, max_turns=2).failure
    assert one(Layers, max_turns=8).failure is None


# ------------------------------------------------------------------ broken games


class Forgetful(Market):
    """A game whose own record is broken."""

    metadata: ClassVar = {**Market.metadata, "records_episodes": True}

    def episode(self):
        raise OSError("no space left")


def test_a_broken_record_of_a_game_fails_its_episode_alone():
    found = collect(Forgetful, ALWAYS_A, [EpisodeStart(i, i, i) for i in range(2)], seed=0)
    assert [t.failure.partition(" (tests/")[0] for t in found] == ["record of the game: OSError: no space left"] * 2


def test_no_games_at_once_are_refused():
    with pytest.raises(ValueError, match="num_envs: found 0, wanted at least 1"):
        collect(Market, ALWAYS_A, [EpisodeStart(0, 0, 0)], seed=0, num_envs=0)


@pytest.mark.parametrize("where", ["reset", "observe", "step", "last step"])
def test_an_environment_that_raises_gives_a_record_not_a_crash(where):
    made = []

    def make():
        made.append(Broken(where))
        return made[-1]

    episodes = [EpisodeStart(i, i, i) for i in range(6)]
    found = collect(make, ALWAYS_A, episodes, seed=0, num_envs=2)
    assert [t.failure is not None for t in found] == [True, False] * 3
    assert "RuntimeError: the roof fell in" in found[0].failure
    assert found[0].failure.startswith({"observe": "observation of "}.get(where, where))
    assert all(len(t.turns) == 7 for t in found[1::2])
    assert 3 < len(made) < 6  # the three that broke are not used again, those that did not are


def test_a_turn_of_somebody_unknown_is_a_record_too():
    class Lost(Market):
        def step(self, action):
            super().step(action)
            self.agent_selection = "nobody"

    assert one(Lost).failure == "who acts next: KeyError: 'nobody'"


class Chat(str):
    """An observation with a chat form."""

    def __new__(cls, messages):
        chat = super().__new__(cls, "chat")
        chat.messages = messages
        return chat


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        (None, "found None (NoneType), wanted str"),
        (7, "found 7 (int), wanted str"),
        (np.zeros(9), "(ndarray), wanted str"),
        ("fine \ud800", r"the text: found the lone surrogate '\ud800' at character 5, wanted text that UTF-8"),
        (Chat("user: hi"), "messages: found str, wanted a sequence of mappings"),
        (Chat(["hi"]), "messages[0]: found str, wanted a mapping with role and content"),
        (Chat([{"role": "user"}]), "messages[0]['content']: found None, wanted str"),
        (Chat([{"content": "hi"}]), "messages[0]['role']: found None, wanted str"),
        (Chat([{"role": "user", "content": "hi", "name": 3}]), "messages[0]['name']: found 3, wanted str"),
        (Chat([{"role": "user", "content": "\udfff"}]), "messages[0]['content']: found the lone surrogate"),
    ],
)
def test_an_observation_that_is_no_text_is_a_record_that_names_the_agent(seen, cause):
    class Odd(Market):
        def observe(self, agent):
            return seen if len(self.log) == 2 else super().observe(agent)

    team = word_team(MARKET)
    trajectory = one(Odd, team, encode=team.encode)
    assert trajectory.failure.startswith("observation of seller_0: ObservationError: ")
    assert cause in trajectory.failure
    assert len(trajectory.turns) == 2


def test_what_is_no_text_after_a_truncation_is_a_record_too():
    class Odd(Market):
        def observe(self, agent):
            return None if self.turn == len(self.plan) else super().observe(agent)

    team = word_team(MARKET)
    found = one(lambda: Odd(cut=True), team, encode=team.encode)
    assert found.failure == "step of seller_0: ObservationError: found None (NoneType), wanted str"


def test_a_cause_that_no_file_takes_is_spelled_out():
    class Odd(Market):
        def observe(self, agent):
            raise ValueError("\ud800")

    assert one(Odd).failure.startswith(r"observation of buyer_0: ValueError: \ud800 (tests/")


class Endless(Market):
    """Never ends."""

    def __init__(self):
        super().__init__(rounds=10**5, buyer_rounds=10**5)


@pytest.mark.parametrize("turns", [1, 5])
def test_a_game_that_does_not_end_is_a_record(turns):
    trajectory = one(Endless, max_turns=turns)
    assert len(trajectory.turns) == turns
    assert trajectory.failure.startswith(
        f"end of the game: EndlessGameError: {turns} turns were played and the game is not over: let the environment "
        "truncate it, or raise max_turns"
    )


def test_a_game_that_ends_with_its_last_turn_is_fine():
    assert one(market(), max_turns=7).failure is None
    assert one(market(), max_turns=6).failure is not None
    assert one(market(rounds=400), max_turns=0).failure is None
    assert one(market(rounds=1100)).failure is not None


def test_training_and_evaluation_pass_the_limit_on():
    team = word_team(MARKET)
    schedule = TrainingSchedule(groups=2, group_size=1, max_turns=3)
    with pytest.raises(AllEpisodesFailedError, match=r"all 2 episodes.*3 turns were played"):
        Trainer(Endless, team, Learner(team, LearnerSettings()), schedule).step()
    assert evaluate(Endless, ALWAYS_A, [{}, {}], max_turns=3).failures == 2


@pytest.mark.parametrize("over", ["terminations", "truncations"])
def test_dead_agents_that_never_leave_are_a_record(over):
    class Undead(Market):
        def step(self, action):
            if action is not None:
                super().step(action)
                setattr(self, over, dict.fromkeys(self.agents, True))

    failure = one(Undead).failure
    assert failure == (
        "who acts next: EndlessGameError: agent 'buyer_0' is dead and stays in env.agents = ['buyer_0', 'seller_0']: "
        "step(None) has to take it out"
    )


def test_failed_episodes_are_counted_and_not_trained_on():
    team = word_team(MARKET)
    trainer = Trainer(
        lambda: Broken("step"), team, Learner(team, LearnerSettings()), TrainingSchedule(groups=8, group_size=1)
    )
    metrics = trainer.step()
    even = sum(draw_seed(0, g) % 2 == 0 for g in range(8))
    assert metrics["team/failed"] == even > 0


def test_an_update_whose_episodes_all_fail_stops_with_the_cause():
    class Closed(Market):
        def reset(self, seed=None, options=None):
            raise OSError("closed for the season")

    team = word_team(MARKET)
    trainer = Trainer(Closed, team, Learner(team, LearnerSettings()), TrainingSchedule(groups=2))
    with pytest.raises(AllEpisodesFailedError, match=r"all 8 episodes.*OSError: closed for the season"):
        trainer.step()


def test_failed_episodes_are_unscored_in_evaluation():
    result = evaluate(lambda: Broken("reset"), ALWAYS_A, [{"seed": 0}, {"seed": 1}])
    assert result.failures == 1
    assert np.isnan(result.scores[0, 0])
    assert result.scores[1, 0] == 1


# ------------------------------------------------------------------ what results depend on


@pytest.mark.parametrize(
    "sampling", [SamplingParams(max_new_tokens=3), SamplingParams(max_new_tokens=3, top_k=5, top_p=0.9)]
)
def test_trajectories_do_not_depend_on_how_many_games_run_at_once(sampling):
    def run(num_envs, max_batch=128):
        team = word_team(MARKET, stir=0.3, sampling=sampling)
        team.max_batch = max_batch
        episodes = training_episodes(5, 3, 5, 2)
        return collect(market(cut=True), team, episodes, seed=5, num_envs=num_envs, encode=team.encode)

    wanted = run(64)
    assert len({str(summary(t)) for t in wanted}) == 10  # every episode has its own randomness, also within a group
    for found in (run(1), run(3), run(64, max_batch=2)):
        assert [summary(t) for t in found] == [summary(t) for t in wanted]
        assert [t.final_prompt_ids.tolist() for t in found] == [t.final_prompt_ids.tolist() for t in wanted]


def test_seeds_and_options_reach_the_environment():
    options = [{"seed": 7, "offset": 1}, {"seed": 7}, {"seed": 8}]
    played = evaluate(market(), ALWAYS_A, options, num_envs=1).trajectories
    starts = [int(np.random.default_rng(s).integers(5)) for s in (7, 7, 8)]
    assert [t.infos["price"] for t in played] == [starts[0] + 1, starts[1], starts[2]]


def test_the_data_position_is_a_function_of_seed_and_update():
    both = training_episodes(3, 0, 4, 2) + training_episodes(3, 1, 4, 2)
    assert [e.number for e in both] == list(range(16))
    assert [e.group for e in both] == [g for g in range(8) for _ in range(2)]
    assert len({e.seed for e in both}) == 8
    assert {e.seed for e in training_episodes(4, 0, 4, 2)}.isdisjoint(e.seed for e in both)


def test_environments_are_reused_and_closed():
    made = []

    def make():
        made.append(Market())
        return made[-1]

    ended = []
    collect(make, ALWAYS_A, [EpisodeStart(i, i, i) for i in range(7)], seed=0, num_envs=3, on_end=ended.append)
    assert len(made) == 3
    assert all(env.closed for env in made)
    assert len(ended) == 7


def test_random_policy_draws_from_the_turns_own_generator():
    def say(seed):
        return RandomPolicy().act([Request("a_0", "x", np.random.default_rng(seed))])[0].text

    assert say(1) == say(1)
    assert len({say(seed) for seed in range(20)}) > 10


def test_mixed_policy_names_the_agents_it_knows():
    with pytest.raises(KeyError, match="no policy for agent 'seller_0'; there are buyer_0"):
        MixedPolicy({"buyer_0": ALWAYS_A}).act([Request("seller_0", "x", np.random.default_rng(0))])
    with pytest.raises(KeyError, match="'speaker_0'; this team plays buyer_0, seller_0"):
        collect(CopyDigit, word_team(MARKET), [EpisodeStart(0, 0, 0)], seed=0)


def test_text_actions_have_no_tokens():
    action = text_action("hello")
    assert len(action.token_ids) == len(action.prompt_ids) == len(action.logprobs) == 0
