"""Many games side by side: the transcripts of a serial loop, whatever the threads do; and Gymnasium's vectors."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv

import marft_envs
from marft_envs import FlexMG, SharedPolicyEnv, UnicodeText, make_vec
from marft_envs.game.task import JudgeFailure
from marft_envs.rollout.game_status import Ended, Waiting
from marft_envs.rollout.vector_games import VectorGames
from tests.helpers.fakes import Broken, Market
from tests.helpers.toy_games import toy_game, toy_tasks, toy_team


@dataclass
class SlowTasks:
    """The toy set with a judge that sleeps for a random time and breaks down at a certain answer."""

    longest_s: float = 0.0
    name: str = "slow"

    def __post_init__(self):
        self.tasks = toy_tasks()
        self.clock = random.Random(0)
        self.index = self.tasks.index

    def __len__(self):
        return len(self.tasks)

    def __getitem__(self, index):
        return self.tasks[index]

    def judge(self, task, answer, *, round, last_round):
        time.sleep(self.longest_s * self.clock.random())
        if answer is not None and "bomb" in answer:
            raise JudgeFailure("the judge is gone")
        return self.tasks.judge(task, answer, round=round, last_round=last_round)


def slow_game(longest_s=0.0, **knobs):
    return FlexMG(SlowTasks(longest_s), toy_team("a_0", "b_0"), **knobs)


def no_threads_left():
    return not [thread for thread in threading.enumerate() if thread.name.startswith("marft-game")]


def say(turn: Waiting) -> str:
    """Return an action that depends on the whole observation and is correct in about a third of the turns."""
    asked = int(turn.observation.partition("What is ")[2][0])
    return f"\\boxed{{{asked + 1 + sum(map(ord, turn.observation)) % 3}}} says {turn.agent}"


def play_all(games: VectorGames, waiting: list[Waiting], answer=say, **knobs) -> dict[int, Ended]:
    """Return how each game ended."""
    ended = {game.index: game for game in games.ended}
    while waiting:
        waiting = games.step({turn.index: answer(turn) for turn in waiting}, **knobs)
        ended |= {game.index: game for game in games.ended}
    return ended


# ------------------------------------------------------------------ the games themselves


def test_it_plays_the_games_of_a_serial_loop():
    def serial(seed):
        env = toy_game(horizon=3)
        env.reset(seed=seed)
        while not any(env.terminations.values()) and not any(env.truncations.values()):
            agent = env.agent_selection
            env.step(say(Waiting(0, agent, env.observe(agent), {})))
        return env.episode(), dict(env.infos)

    with make_vec(toy_game, 9, horizon=3) as games:
        assert len(games) == 9
        waiting = games.reset(seeds=4)
        assert [turn.index for turn in waiting] == list(range(9))
        assert waiting[2].info["turn"] == 0
        ended = play_all(games, waiting)
    assert len({len(game.record.turns) for game in ended.values()}) > 1
    for index in range(9):
        record, infos = serial(4 + index)
        game = ended[index]
        assert (game.record, game.infos, game.seed) == (record, infos, 4 + index)
        assert (game.terminated, game.truncated, game.failure) == (record.terminated, record.truncated, None)
        assert game.turns == len(record.turns)
        assert game.rewards == dict.fromkeys(("a_0", "b_0"), sum(record.rewards))


@pytest.mark.parametrize("knobs", [{"threads": 1}, {"threads": 3}, {"threads": 16}, {"threads": 16, "wait": "all"}])
def test_transcripts_do_not_depend_on_the_threads(knobs):
    def run(threads, **wait):
        with make_vec(slow_game, 12, threads=threads, longest_s=0.004, horizon=3) as games:
            return play_all(games, games.reset(seeds=0), **wait)

    assert run(**knobs) == run(0)
    assert no_threads_left()


def test_a_third_party_game_whose_agents_leave_at_different_times():
    with make_vec(Market, 2, cut=True) as games:
        ended = play_all(games, games.reset(seeds=[0, 0]), answer=lambda turn: "a")
    for game in ended.values():
        assert (game.turns, game.terminated, game.truncated, game.record) == (7, False, True, None)
        assert game.rewards == {"buyer_0": 4.0, "seller_0": 3.0}
        assert set(game.infos) == {"buyer_0", "seller_0"}


def test_ids_share_their_tasks():
    with make_vec("marft/math_duo-v0", 3, horizon=2) as games:
        envs = [games._games[index].env.unwrapped for index in range(3)]
        waiting = games.reset(seeds=[7, 7, 8], options={"index": 5})
        assert waiting[0].observation == waiting[1].observation
        assert {turn.info["task_index"] for turn in waiting} == {5}
    assert len({id(env) for env in envs}) == 3
    assert len({id(env.tasks) for env in envs}) == 1
    assert {env.horizon for env in envs} == {2}


# ------------------------------------------------------------------ slow steps


def test_a_slow_game_stalls_no_other():
    others_over = threading.Semaphore(0)

    class Patient(SlowTasks):
        def judge(self, task, answer, *, round, last_round):
            if answer == "wait" and round == 0:
                assert all(others_over.acquire(timeout=60) for _ in range(3)), "the others wait for this game"
            elif answer == "wrong" and last_round:
                others_over.release()
            return super().judge(task, answer, round=round, last_round=last_round)

    with make_vec(lambda: FlexMG(Patient(), toy_team("a_0"), horizon=5), 4, threads=2) as games:
        ended = play_all(games, games.reset(seeds=0), lambda turn: "wait" if turn.index == 0 else "wrong")
    assert {game.failure for game in ended.values()} == {None}


def test_many_games_keep_the_workers_of_a_judge_busy():
    workers = threading.Barrier(8, timeout=60)  # breaks if fewer are ever at work at once

    class Judged(SlowTasks):
        def judge(self, task, answer, *, round, last_round):
            workers.wait()
            return super().judge(task, answer, round=round, last_round=last_round)

    with make_vec(lambda: FlexMG(Judged(), toy_team("a_0", "b_0")), 16, threads=8) as games:
        ended = play_all(games, games.reset(seeds=0))
    assert {game.failure for game in ended.values()} == {None}


class Clock:
    """A clock that only its caller moves."""

    now_s = 0.0

    def monotonic(self):
        return self.now_s


def test_a_slow_caller_gets_whole_batches(monkeypatch):
    clock, sizes = Clock(), []
    monkeypatch.setattr("marft_envs.rollout.vector_games.time", clock)
    with make_vec(slow_game, 8, longest_s=0.005) as games:
        waiting = games.reset(seeds=0)
        while waiting:
            sizes.append(len(waiting))
            clock.now_s += 400.0  # so `step` may wait up to 100 s for judges of at most 5 ms
            waiting = games.step({turn.index: "x" for turn in waiting})
    assert sizes == [8, 8]


# ------------------------------------------------------------------ seeds, restarts, autoreset


def test_seeds_and_options_of_each_game():
    with make_vec(toy_game, 3) as games:
        waiting = games.reset(seeds=[5, 5, 6], options=[{"task_id": "add-2"}, {"index": 4}, None])
        assert [turn.info["task_index"] for turn in waiting[:2]] == [2, 4]
        assert {game.seed for game in play_all(games, waiting).values()} == {5, 6}
        drawn = {game.seed for game in play_all(games, games.reset()).values()}
        assert len(drawn) == 3
        with pytest.raises(ValueError, match="seeds: found 2, wanted one for each of the 3 games"):
            games.reset(seeds=[1, 2])
        with pytest.raises(ValueError, match="options: found 1, wanted one for each"):
            games.reset(options=[None])


def test_one_game_can_begin_anew_while_others_go_on():
    with make_vec(toy_game, 2) as games:
        waiting = games.reset(seeds=0)
        games.step({0: say(waiting[0])})
        games.restart(0, seed=9, options={"index": 3})
        with pytest.raises(ValueError, match="game 0 cannot begin anew: its step is under way"):
            games.restart(0)
        with pytest.raises(ValueError, match="game 2 cannot begin anew: there are games 0 to 1"):
            games.restart(2)
        [fresh] = games.step({})
        assert (fresh.index, fresh.agent, fresh.info["task_index"], fresh.info["turn"]) == (0, "a_0", 3, 0)
        assert [turn.index for turn in games.waiting] == [0, 1]
        assert games.waiting[1] == waiting[1]


@pytest.mark.parametrize("threads", [0, 4])
def test_autoreset_begins_new_episodes_that_follow_from_the_seed(threads):
    def run():
        episodes = {index: [] for index in range(3)}
        with make_vec(toy_game, 3, threads=threads, autoreset=True) as games:
            waiting = games.reset(seeds=0)
            while min(map(len, episodes.values())) < 4:
                waiting = games.step({turn.index: say(turn) for turn in waiting})
                for game in games.ended:
                    episodes[game.index].append(game)
        return {index: games[:4] for index, games in episodes.items()}

    episodes = run()
    assert episodes == run()
    assert len({game.seed for games in episodes.values() for game in games}) == 12
    again = toy_game()
    later = episodes[1][3]
    again.reset(seed=later.seed)
    assert again.task.id == later.record.task_id


def test_a_game_that_begins_anew_waits_for_no_action_of_its_former_turn():
    with make_vec(toy_game, 2) as games:
        waiting = games.reset(seeds=0)
        games.restart(0, seed=1)
        assert games.waiting == waiting[1:]
        with pytest.raises(ValueError, match="game 0 does not wait for an action: its step is under way"):
            games.step({0: "x"})


@pytest.mark.parametrize("threads", [0, 3])
def test_waiting_for_all_includes_the_games_that_begin_anew(threads):
    with make_vec(toy_game, 2, threads=threads, autoreset=True, horizon=1) as games:
        games.reset(seeds=0)
        games.step({0: "x"}, wait="all")
        waiting = games.step({0: "x", 1: "x"}, wait="all")  # game 0 ends, game 1 goes on
        assert [game.index for game in games.ended] == [0]
        assert [(turn.index, turn.agent) for turn in waiting] == [(0, "a_0"), (1, "b_0")]
        assert games.running == []


def test_a_reset_waits_for_the_steps_under_way():
    release = threading.Event()

    class Slow(Market):
        busy = False

        def reset(self, seed=None, options=None):
            assert not self.busy, "reset in mid-step"
            super().reset(seed, options)

        def step(self, action):
            self.busy = True
            assert action != "0" or release.wait(60)
            super().step(action)
            self.busy = False

    with make_vec(Slow, 2, threads=2) as games:
        games.reset(seeds=0)
        assert [turn.index for turn in games.step({0: "0", 1: "a"})] == [1]
        threading.Timer(0.02, release.set).start()
        assert [turn.index for turn in games.reset(seeds=0)] == [0, 1]
        assert games.ended == []


def test_the_seeds_of_autoreset_follow_from_the_first_one():
    with make_vec(toy_game, 1, threads=0, autoreset=True, horizon=1) as games:
        waiting, seeds = games.reset(seeds=5), []
        while len(seeds) < 3:
            waiting = games.step({turn.index: "x" for turn in waiting})
            seeds += [game.seed for game in games.ended]
    assert seeds == [5, *(int(np.random.SeedSequence([5, episode]).generate_state(1)[0]) for episode in (1, 2))]


def test_autoreset_does_not_begin_for_ever_what_cannot_begin():
    with make_vec(Broken, 2, where="reset", autoreset=True) as games:
        assert [turn.index for turn in games.reset(seeds=0)] == [1]
        assert [game.index for game in games.ended] == [0]


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize("threads", [0, 4])
@pytest.mark.parametrize(
    ("where", "turns"), [("reset", 0), ("observe", 3), ("step", 0), ("last step", 5)]
)  # turns taken before it breaks
def test_an_environment_that_raises_is_a_record_and_replaced(where, turns, threads):
    made, closed = [], []

    class Counted(Broken):
        def close(self):
            closed.append(made.index(self))
            super().close()  # those that broke raise again

    def make():
        made.append(Counted(where))
        return made[-1]

    with make_vec(make, 4, threads=threads) as games:
        ended = play_all(games, games.reset(seeds=0), answer=lambda turn: "a")
        assert [ended[index].failure is not None for index in range(4)] == [True, False] * 2
        broken = ended[0]
        doing = {"observe": "observation of ", "step": "step of buyer_0", "last step": "last step of "}
        assert broken.failure.startswith(doing.get(where, where))
        assert ": RuntimeError: the roof fell in (tests/" in broken.failure
        assert (broken.terminated, broken.truncated, broken.turns) == (False, False, turns)
        assert len(made) == 4
        healthy = play_all(games, games.reset(seeds=[1] * 4), answer=lambda turn: "a")
        assert len(made) == 6
        assert {game.failure for game in healthy.values()} == {None}
        assert closed == [0, 2]
    assert sorted(closed) == list(range(6))


def test_a_judge_that_fails_leaves_the_record_of_what_was_said():
    with make_vec(slow_game, 1) as games:
        ended = play_all(games, games.reset(seeds=0), answer=lambda turn: f"bomb of {turn.agent}")
    assert ended[0].failure.startswith("step of b_0: JudgeFailure: the judge is gone (tests/")
    assert [turn.action for turn in ended[0].record.turns] == ["bomb of a_0", "bomb of b_0"]
    assert ended[0].record.outcomes == ()


# ------------------------------------------------------------------ broken promises of the caller


def test_actions_that_nobody_asked_for_change_nothing():
    with make_vec(toy_game, 3) as games:
        with pytest.raises(ValueError, match=r"game 1 does not wait.*was never begun"):
            games.step({1: "x"})
        waiting = games.reset(seeds=0)
        with pytest.raises(ValueError, match="game 3 does not wait for an action: there are games 0 to 2"):
            games.step({0: "x", 3: "y"})
        with pytest.raises(TypeError, match="game 1: the action of a_0 is NoneType, wanted str"):
            games.step({0: "x", 1: None})
        with pytest.raises(TypeError, match="game 1: the action of a_0 is int, wanted str"):
            games.step({0: "x", 1: 3})
        with pytest.raises(ValueError, match="wait: found 'some', wanted 'any' or 'all'"):
            games.step({0: "x"}, wait="some")
        assert games.waiting == waiting
        play_all(games, waiting)
        with pytest.raises(ValueError, match=r"game 0 does not wait.*has ended"):
            games.step({0: "x"})


def test_at_most_one_step_of_a_game_is_under_way():
    over = threading.Event()

    class Stuck(SlowTasks):
        def judge(self, task, answer, *, round, last_round):
            assert answer != "wait" or over.wait(timeout=60)
            return super().judge(task, answer, round=round, last_round=last_round)

    with make_vec(lambda: FlexMG(Stuck(), toy_team("a_0"), horizon=2), 2) as games:
        games.reset(seeds=0)
        [fast] = games.step({0: "wait", 1: "x"})
        assert fast.index == 1
        assert games.running == [0]
        with pytest.raises(ValueError, match="game 0 does not wait for an action: its step is under way"):
            games.step({0: "x"})
        over.set()


def test_closing_waits_closes_all_and_can_be_repeated():
    made = []

    class Sticky(Market):
        def close(self):
            super().close()
            if self is made[0]:
                raise OSError("it sticks")

        def step(self, action):
            time.sleep(0.05)
            assert not self.closed, "closed in mid-step"
            super().step(action)

    def make():
        made.append(Sticky())
        return made[-1]

    games = make_vec(make, 3, threads=2)
    games.reset(seeds=0)
    games._jobs.submit(2, games._games[2].play, "a")
    with pytest.raises(OSError, match="it sticks"):
        games.close()
    games.close()
    assert [env.closed for env in made] == [True] * 3
    assert no_threads_left()
    for call in (games.reset, lambda: games.step({}), lambda: games.restart(0)):
        with pytest.raises(RuntimeError, match="these games are closed"):
            call()


def test_numbers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="num_envs: found 0"):
        make_vec(toy_game, 0)
    with pytest.raises(ValueError, match="threads: found -1"):
        make_vec(toy_game, 1, threads=-1)
    with pytest.raises(KeyError, match="did you mean"):
        make_vec("marft/math_dou-v0", 1)


# ------------------------------------------------------------------ Gymnasium's vectors

ID = "marft_envs:marft/math_duo-v0"


def gymnasium_vector(mode, **vector_kwargs):
    knobs = {"vector_kwargs": vector_kwargs} if vector_kwargs else {}
    return gymnasium.make_vec(ID, num_envs=3, vectorization_mode=mode, data=toy_tasks(), horizon=2, **knobs)


@pytest.mark.parametrize(("mode", "knobs"), [("sync", {}), ("async", {"shared_memory": False})])
def test_gymnasiums_vectors_play_the_games_of_single_environments(mode, knobs):
    vector = gymnasium_vector(mode, **knobs)
    try:
        singles = [SharedPolicyEnv(marft_envs.make(ID, data=toy_tasks(), horizon=2)) for _ in range(3)]
        observations, infos = vector.reset(seed=5)
        seen = [single.reset(seed=5 + place) for place, single in enumerate(singles)]
        for turn in range(4):
            assert observations == tuple(observation for observation, _ in seen)
            assert observations in vector.observation_space
            assert infos["task_index"].tolist() == [info["task_index"] for _, info in seen]
            actions = tuple(f"\\boxed{{{place + turn}}}" for place in range(3))
            stepped = [single.step(action) for single, action in zip(singles, actions, strict=True)]
            observations, rewards, terminated, truncated, infos = vector.step(actions)
            seen = [(observation, info) for observation, *_, info in stepped]
            for got, column in ((rewards, 1), (terminated, 2), (truncated, 3)):
                assert got.tolist() == [each[column] for each in stepped]
            if any(terminated):
                break
        assert observations == tuple(observation for observation, _ in seen)
    finally:
        vector.close()


def test_gymnasiums_shared_memory_is_refused_not_silently_wrong():
    with pytest.raises(ValueError, match="shared_memory=False"):
        gymnasium_vector("async")
    with pytest.raises(ValueError, match="shared_memory=False"):
        gymnasium_vector("async", shared_memory=True)
    assert multiprocessing.active_children() == []


def test_text_inside_another_space_is_refused_too():
    class Nested(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            {"text": gymnasium.spaces.Tuple((UnicodeText(9),)), "turn": gymnasium.spaces.Discrete(3)}
        )
        action_space = UnicodeText(9)

    with pytest.raises(ValueError, match="shared_memory=False"):
        AsyncVectorEnv([Nested, Nested])
    assert multiprocessing.active_children() == []
