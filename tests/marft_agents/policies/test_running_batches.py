"""Games feed a running batch: who joins when follows from steps alone, and the batch stays full to the last games."""

import math
import threading
import time
from functools import partial
from types import MappingProxyType

import numpy as np
import pytest
import torch

from marft_agents.generation import continuous_batching
from marft_agents.generation.continuous_batching import JOIN, Generation, Prompt
from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.step_engine import StepEngine
from marft_agents.models.pretrained import load
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.policy import FunctionPolicy, Request, RunningPolicy, TimedPolicy, WholeBatches, session_of
from marft_agents.policies.running_batches import RunningBatches
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.setting_fields import SettingsError
from tests.helpers.adapted_models import adapted
from tests.helpers.fakes import Market

CPU = torch.device("cpu")
SAMPLING = SamplingParams(max_new_tokens=26)


@pytest.fixture(scope="module")
def base():
    base = adapted(load("tiny", device=CPU))
    plain, bias = base.head, torch.zeros(base.head.out_features)
    bias[list(base.end_ids)] = 2.0
    base.head = lambda states, more=1.0: plain(states) + more * bias
    return base


@pytest.fixture
def team(base):
    return LanguageModelTeam({"buyer_0": LocalAgent(base, "a_0"), "seller_0": LocalAgent(base, "b_0")}, SAMPLING)


class PatientMarket(Market):
    """A market in which whatever an agent says counts as the same word."""

    def step(self, action):
        super().step(None if action is None else "a")


def slow(seed):
    """Return a market whose steps take some time in threads, not the same each time."""
    rng = np.random.default_rng(seed)

    class Slow(PatientMarket):
        metadata = MappingProxyType({"slow_step": True})

        def step(self, action):
            time.sleep(rng.random() * 0.02)
            super().step(action)

    return Slow


def tokens(played):
    return [[turn.action.token_ids.tolist() for turn in game.turns] for game in played]


def logprobs(played):
    return np.concatenate([turn.action.logprobs for game in played for turn in game.turns]).tobytes()


@pytest.fixture
def rows(monkeypatch):
    """Rows of every step."""
    found = []
    plain = StepEngine.run

    def run(self, sampling, shape, steps):
        found.append(shape.rows)
        plain(self, sampling, shape, steps)

    monkeypatch.setattr(StepEngine, "run", run)
    return found


def test_games_do_not_wait_for_the_last_action_of_the_others(team, rows):
    episodes = training_episodes(0, 0, 6, 1)
    whole = collect(PatientMarket, FunctionPolicy(team.act), episodes, seed=0, num_envs=3)
    steps = len(rows)
    rows.clear()
    fed = collect(PatientMarket, team, episodes, seed=0, num_envs=3)
    assert tokens(fed) == tokens(whole)
    assert len(rows) < 0.95 * steps


def test_without_end_of_patience_the_clock_decides_nothing(team, rows):
    def play(seed, patience=math.inf):
        rows.clear()
        played = collect(slow(seed), team, training_episodes(0, 0, 4, 1), seed=0, num_envs=3, patience=patience)
        return tokens(played), logprobs(played), list(rows)

    first = play(0)
    assert play(1) == first
    assert play(2, patience=0.1)[0] == first[0]


@pytest.mark.parametrize(("late", "after"), [(1, JOIN["cpu"]), (2, JOIN["cpu"]), (3, 1)])
def test_few_prompts_wait_some_steps_for_others(base, rows, monkeypatch, late, after):
    monkeypatch.setattr(base, "end_ids", frozenset())
    generation = Generation(base, SAMPLING)

    def submit(count):
        for row in range(count):
            generation.submit(Prompt(np.arange(5, dtype=np.int32), np.random.default_rng(row), "a_0"))

    submit(5)
    generation.step()
    submit(late)
    for _ in range(JOIN["cpu"] + 2):
        generation.step()
    assert rows == [5] * after + [5 + late] * (len(rows) - after)


def test_requests_may_come_from_any_thread(team, base):
    session = session_of(team)
    assert isinstance(session, RunningPolicy)
    asked, numbers = threading.Event(), {}

    def submit(name):
        for k in range(5):
            request = Request("buyer_0", f"{name} {k}", np.random.default_rng(k))
            [number] = session.submit([request])
            numbers[number] = request
        asked.set()

    threads = [threading.Thread(target=submit, args=(f"thread {t}",)) for t in range(4)]
    for thread in threads:
        thread.start()
    asked.wait()
    actions = {}
    while any(thread.is_alive() for thread in threads) or len(actions) < 20:
        actions.update(session.advance())
    for thread in threads:
        thread.join()
    assert actions.keys() == numbers.keys()
    for number, request in numbers.items():
        generator = np.random.default_rng(int(request.observation[-1]))
        [alone] = team.act([Request(request.agent, request.observation, generator)])
        assert alone.token_ids.tolist() == actions[number].token_ids.tolist()
    session.close()


def test_threads_of_equal_sampling_parameters_share_the_steps_of_one_batch(team, rows):
    warm, requests = SamplingParams(temperature=2.0, max_new_tokens=26), 6
    batches, found, joined = RunningBatches(team), {}, threading.Barrier(requests)

    def ask(k):
        sampling = warm if k == 5 else SAMPLING
        with batches.joined(sampling) as policy:
            joined.wait()  # else the first may be done before the last one is started
            found[k] = [
                policy.act([Request("buyer_0", f"{k} {turn}", np.random.default_rng(k))])[0] for turn in range(2)
            ]

    threads = [threading.Thread(target=ask, args=[k]) for k in range(requests)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared, alone = len(rows), 0
    batches.close()
    for k, actions in found.items():
        own = team.under(warm) if k == 5 else team
        for turn, action in enumerate(actions):
            rows.clear()
            [same] = own.act([Request("buyer_0", f"{k} {turn}", np.random.default_rng(k))])
            alone += len(rows)
            assert same.token_ids.tolist() == action.token_ids.tolist()
    assert shared < 0.7 * alone


def test_a_failure_reaches_the_threads_that_wait_and_the_next_batch_works(team, monkeypatch):
    batches = RunningBatches(team)
    request = Request("buyer_0", "x", np.random.default_rng(0))
    with batches.joined(SAMPLING) as policy:
        with monkeypatch.context() as broken:
            broken.setattr(StepEngine, "run", lambda *given: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                policy.act([request])
        with pytest.raises(KeyError, match="no policy for agent 'nobody_0'"):
            policy.act([request, Request("nobody_0", "x", np.random.default_rng(0))])
        [action] = policy.act([Request("buyer_0", "x", np.random.default_rng(0))])
    batches.close()
    assert (
        action.token_ids.tolist() == team.act([Request("buyer_0", "x", np.random.default_rng(0))])[0].token_ids.tolist()
    )


def test_a_batch_that_cannot_open_tells_the_thread_that_asks_and_the_next_one_works(team):
    batches, told = RunningBatches(team), []
    request = Request("buyer_0", "x", np.random.default_rng(0))

    def ask():
        with batches.joined(SamplingParams(max_new_tokens=10**6)) as policy:
            try:
                policy.act([request])
            except SettingsError as error:
                told.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)  # without an answer it would wait for ever
    thread.start()
    thread.join(30)
    assert "leaves no room for a prompt" in told[0]
    with batches.joined(SAMPLING) as policy:
        assert policy.act([]) == []
        assert len(policy.act([request])) == 1
    batches.close()


def test_a_session_is_timed_and_others_answer_in_whole_batches(team):
    timed = TimedPolicy(team)
    session = session_of(timed)
    assert isinstance(session, RunningPolicy)
    numbers = session.submit([Request("seller_0", "x", np.random.default_rng(0))])
    before = timed.seconds
    while not (ended := session.advance()):
        pass
    assert timed.seconds > before
    assert [number for number, _ in ended] == numbers
    batches = WholeBatches(FunctionPolicy(team.act))
    first, second = batches.submit([Request("seller_0", "x", np.random.default_rng(0)) for _ in range(2)])
    ((one, action), (other, same)) = batches.advance()
    assert (one, other) == (first, second)
    assert action.token_ids.tolist() == same.token_ids.tolist() == ended[0][1].token_ids.tolist()
    assert batches.submit([Request("seller_0", "x", np.random.default_rng(0))]) == [second + 1]


def test_the_batch_stays_full_to_the_last_games(base, rows, monkeypatch):
    """Share of the batch's rows that sample, for actions of very different lengths."""
    monkeypatch.setattr(continuous_batching, "JOIN", {"cpu": 1})  # 16, for lengths of hundreds
    monkeypatch.setattr(base, "head", partial(base.head, more=1.5))
    team = LanguageModelTeam({"buyer_0": LocalAgent(base, "a_0"), "seller_0": LocalAgent(base, "b_0")}, SAMPLING)
    episodes, games = training_episodes(0, 0, 18, 1), 3

    def occupancy(policy):
        rows.clear()
        played = collect(lambda: PatientMarket(rounds=1), policy, episodes, seed=0, num_envs=games)
        lengths = [len(turn.action.token_ids) for game in played for turn in game.turns]
        assert 5 < np.mean(lengths) < 15
        return sum(rows) / (games * len(rows))

    whole, fed = occupancy(FunctionPolicy(team.act)), occupancy(team)
    assert fed > 0.85
    assert fed > 1.2 * whole
