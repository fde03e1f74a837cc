"""One running game: who acts next, sums, dead agents, and failures with their causes."""

import pytest

from marft_common.running_game import RunningGame
from tests.helpers.fakes import Broken, Market

BOTH = ["buyer_0", "seller_0"]


def played(env, turns=99, seed=0):
    game = RunningGame(env)
    game.reset(seed, None)
    while not game.over and game.turns < turns:
        game.step("a")
    return game


def test_a_game_is_played_by_its_living_agents_to_the_end():
    env, agents = Market(), []
    game = RunningGame(env)
    game.reset(1, {"offset": 7})
    assert env.start >= 7
    while not game.over:
        agents.append(game.agent[0])
        game.step("a")
    assert "".join(agents) == "bbsbbss"
    assert (game.turns, game.rewards, game.failure, env.agents) == (7, {"buyer_0": 4.0, "seller_0": 3.0}, None, [])


def test_the_environment_gets_options_of_its_own():
    class Keeps(Market):
        def reset(self, seed=None, options=None):
            self.options = options
            super().reset(seed, options)

    env, options = Keeps(), {"offset": 1}
    RunningGame(env).reset(0, options)
    assert env.options == options
    assert env.options is not options
    RunningGame(env).reset(0, None)
    assert env.options is None


@pytest.mark.parametrize(("terminated", "truncated", "cut_off"), [([], BOTH, BOTH), (BOTH, BOTH, []), (BOTH, [], [])])
def test_an_agent_that_is_truncated_and_terminated_has_terminated(terminated, truncated, cut_off):
    class Ends(Market):
        def step(self, action):
            if action is None:  # the last steps
                self.terminations = self.truncations = dict.fromkeys(self.agents[1:], True)
                self.agents = self.agents[1:]
                self.agent_selection = self.agents[0] if self.agents else ""
                return
            super().step(action)
            self.terminations = {agent: agent in terminated for agent in self.agents}
            self.truncations = {agent: agent in truncated for agent in self.agents}

    game = played(Ends())
    assert (game.over, game.failure, game.turns) == (True, None, 1)
    assert game.cut_off == cut_off


class Lingers(Market):
    """Both agents die at once; each leaves with its last step number `last_steps`, which pays."""

    last_steps = 1

    def step(self, action):
        if action is None:
            assert self.agents
            self.taken = getattr(self, "taken", 0) + 1
            self.rewards = dict.fromkeys(self.agents, 5.0)
            if self.taken % self.last_steps == 0:
                del self.agents[0]
            self.agent_selection = self.agents[0] if self.agents else ""
        else:
            super().step(action)
            self.terminations = dict.fromkeys(self.agents, True)


@pytest.mark.parametrize(("last_steps", "found"), [(1, 2), (9, 18)])
def test_dead_agents_are_stepped_until_they_leave_and_are_not_paid(last_steps, found):
    env = Lingers()
    env.last_steps = last_steps
    game = played(env)
    assert (game.failure, env.taken, game.turns, game.rewards["buyer_0"]) == (None, found, 1, 1.0)


def test_the_last_of_the_dead_may_stay_no_longer_than_the_first():
    class Uneven(Lingers):
        last_steps = 15

        def step(self, action):
            super().step(action)
            if len(self.agents) == 1:
                self.last_steps = 10**9

    game = played(Uneven())
    assert game.env.taken == 20
    assert "agent 'seller_0' is dead and stays" in game.failure


def test_a_dead_agent_that_never_leaves_is_a_failure():
    env = Lingers()
    env.last_steps = 10**9
    game = played(env)
    assert env.taken == 20
    assert game.failure == (
        "who acts next: EndlessGameError: agent 'buyer_0' is dead and stays in env.agents = ['buyer_0', 'seller_0']: "
        "step(None) has to take it out"
    )


@pytest.mark.parametrize(("where", "turns"), [("reset", 0), ("step", 0), ("last step", 5)])
def test_an_exception_of_the_environment_is_the_failure_of_the_game(where, turns):
    game = played(Broken(where))
    doing = {"step": "step of buyer_0", "last step": "last step of buyer_0"}.get(where, where)
    assert game.failure.startswith(f"{doing}: RuntimeError: the roof fell in (tests/helpers/fakes.py:")
    assert (game.over, game.turns) == (True, turns)


def test_a_failed_game_takes_no_further_step():
    class Counts(Market):
        steps = 0

        def step(self, action):
            self.steps += 1
            raise OSError("gone")

    env = Counts()
    game = played(env)
    assert env.steps == 1
    assert game.failure.startswith("step of buyer_0: OSError: gone (tests/")
    dead = Lingers()
    dead.last_steps = 0  # division by zero in the first last step
    assert played(dead).failure.startswith("last step of buyer_0: ZeroDivisionError")
    assert dead.taken == 1


def test_an_unknown_agent_that_is_to_act_is_a_failure():
    class Lost(Market):
        def step(self, action):
            super().step(action)
            self.agent_selection = "nobody"

    assert played(Lost()).failure == "who acts next: KeyError: 'nobody'"


def test_rewards_that_are_no_numbers_are_a_failure_of_the_step():
    class Pays(Market):
        def step(self, action):
            super().step(action)
            self.rewards["buyer_0"] = "much"

    assert played(Pays()).failure == "step of buyer_0: ValueError: could not convert string to float: 'much'"


def test_a_cause_can_be_written_as_utf_8():
    game = RunningGame(Market())
    assert game.attempt("a test", int, "\ud800") is None
    assert game.failure.startswith(r"a test: ValueError: invalid literal for int() with base 10: ")
    assert game.failure.encode()
    game.fail("no \udfff")
    assert game.failure == r"no \udfff"


def test_what_an_attempt_returns_is_passed_on_and_what_stops_the_process_is_no_failure():
    game = RunningGame(Market())
    assert game.attempt("a sum", sum, [1, 2]) == 3
    assert (game.failure, game.over) == (None, False)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        game.attempt("a stop", stop)


def test_closing_raises_unless_the_game_failed():
    class Sticks(Market):
        def close(self):
            super().close()
            raise OSError("it sticks")

    game = RunningGame(Sticks())
    with pytest.raises(OSError, match="it sticks"):
        game.close()
    game.fail("broken")
    game.env.closed = False
    game.close()
    assert game.env.closed
