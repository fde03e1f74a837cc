"""Games that break one rule of the conformance kit each; their docstrings say how."""

from __future__ import annotations

import copy
import random
import time
import uuid
from typing import ClassVar

from gymnasium import spaces

from marft_envs import FlexMG, TextObservation, UnicodeText
from marft_envs.game.rewards import as_reward
from marft_envs.tasks.math import MathTasks
from tests.helpers.toy_games import toy_grader, toy_tasks, toy_team


class Unplayable(FlexMG):
    """Raises in its first turn."""

    def step(self, action):
        raise ValueError("out of order")


class Plain(FlexMG):
    """Observations are plain strings."""

    def observe(self, agent):
        return str(super().observe(agent))


class Unseeded(FlexMG):
    """Shows what no seed decides."""

    def reset(self, seed=None, options=None):
        self.mark = uuid.uuid4().hex
        super().reset(seed, options)

    def observe(self, agent):
        return TextObservation(f"{super().observe(agent)} {self.mark}")


class Lost(FlexMG):
    """Sees what is not in its space once it has acted."""

    def observe(self, agent):
        seen = super().observe(agent)
        return seen if not self._state.turns else TextObservation(seen + "\ud800")


class Silent(FlexMG):
    """Renders nothing."""

    def render(self):
        return None


class Stateless(FlexMG):
    """Its state is not in the space of states."""

    def state(self):
        return 3


class Fragile(FlexMG):
    """Plays only with a seed."""

    def reset(self, seed=None, options=None):
        if seed is None:
            raise ValueError("give a seed")
        super().reset(seed, options)


class Alphabetic(FlexMG):
    """Gymnasium's own text spaces."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        letters = {agent: spaces.Text(100_000, min_length=0) for agent in self.possible_agents}
        self.observation_spaces, self.action_spaces = letters, letters


class Wasteful(FlexMG):
    """A new space at each call."""

    def observation_space(self, agent):
        return UnicodeText(2**20)


class Uneven(FlexMG):
    """Agents end with different flags."""

    def _finish_round(self):
        super()._finish_round()
        first = self.possible_agents[0]
        self.truncations[first], self.terminations[first] = self.terminations[first], False


class Unfair(FlexMG):
    """Pays one agent more."""

    def _finish_round(self):
        super()._finish_round()
        self.rewards[self.possible_agents[0]] += 1.0


class Individual(Unfair):
    """Not broken: pays one agent more, and promises it."""

    metadata: ClassVar = {"individual_rewards": True}


class Boundless(FlexMG):
    """Pays no finite number."""

    def _finish_round(self):
        super()._finish_round()
        self.rewards = dict.fromkeys(self.rewards, float("nan"))


class Retold(FlexMG):
    """Infos with additions of a subclass."""

    def more(self, agent):
        return {}

    @property
    def infos(self):
        told = super().infos
        return {agent: told[agent] | self.more(agent) for agent in self.agents}

    def last(self, observe=True):
        *others, info = super().last(observe)
        return (*others, info | self.more(self.agent_selection))


class Wordy(Retold):
    """A string in the infos."""

    def more(self, agent):
        return {"author": "a_0"} if agent == self.possible_agents[0] else {}


class Late(Retold):
    """A key in the infos that comes later."""

    def more(self, agent):
        return {"late": 1} if self._state.turns else {}


class Worn(FlexMG):
    """Looking uses something up."""

    looks = 0

    def observe(self, agent):
        self.looks += 1
        return TextObservation(f"{super().observe(agent)} {self.looks}")


class Fussy(FlexMG):
    """Raises on an empty action."""

    def step(self, action):
        if action == "":
            raise ValueError("say something")
        super().step(action)


class Generous(Retold):
    """Every action counts as a success."""

    def more(self, agent):
        return {"success": 1}


class Strict(FlexMG):
    """Raises on an unknown option."""

    def reset(self, seed=None, options=None):
        if set(options or {}) - {"index", "task_id"}:
            raise ValueError("an unknown option")
        super().reset(seed, options)


class Sticky(FlexMG):
    """A reset in mid-game leaves something of the game before."""

    left = 0

    def reset(self, seed=None, options=None):
        self.left = len(self._state.turns) if hasattr(self, "_state") else 0
        super().reset(seed, options)

    def observe(self, agent):
        return TextObservation(f"{super().observe(agent)} {self.left}")


class Onceler(FlexMG):
    """Closes once."""

    closed = False

    def close(self):
        if self.closed:
            raise ValueError("closed already")
        self.closed = True


class Forgetful(FlexMG):
    """A copy starts anew."""

    def __deepcopy__(self, memo):
        clone = Forgetful(self.tasks, self.team)
        clone.reset(seed=1)
        return clone


class Crowded(FlexMG):
    """Counts the turns of all games in one place."""

    turns: ClassVar[list[int]] = [0]

    def step(self, action):
        self.turns[0] += 1
        super().step(action)

    def observe(self, agent):
        return TextObservation(f"{super().observe(agent)} {self.turns[0]}")


class Hashing(FlexMG):
    """Shows what each process hashes differently."""

    def observe(self, agent):
        return TextObservation(f"{super().observe(agent)} {hash(agent)}")


class Gambler(FlexMG):
    """Draws from the global generator."""

    def reset(self, seed=None, options=None):
        random.random()
        super().reset(seed, options)


class Nosy(FlexMG):
    """Shows everything to everybody."""

    def observe(self, agent):
        return TextObservation(super().observe(agent) + str(self.state()))


class Blind(FlexMG):
    """Shows nothing of the others."""

    def observe(self, agent):
        return TextObservation("\n".join(turn.action for turn in self._state.turns if turn.agent == agent))


class Whispering(FlexMG):
    """Shows to everybody how much was said, though not what."""

    def observe(self, agent):
        return TextObservation(f"{super().observe(agent)} {sum(len(turn.action) for turn in self._state.turns)}")


class Moody(FlexMG):
    """The same actions are paid differently in each game that it makes."""

    made: ClassVar[list[int]] = [0]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.made[0] += 1
        mood = float(self.made[0])
        self.reward = as_reward(lambda outcome: mood)


class Slow(FlexMG):
    """Computes for 10 ms in each turn."""

    def step(self, action):
        end = time.process_time() + 0.01
        while time.process_time() < end:
            copy.copy(action)
        super().step(action)


class Unanswerable(MathTasks):
    """Judges texts alone, not a missing answer."""

    def judge(self, task, answer, *, round, last_round):
        return super().judge(task, answer.strip(), round=round, last_round=last_round)


class Speechless(FlexMG):
    """Its judge raises where nobody answered."""

    def __init__(self, tasks, *args, **kwargs):
        super().__init__(Unanswerable(tasks.name, [*tasks], grader=toy_grader), *args, **kwargs)


def make_broken(kind, **kwargs):
    """Two that do not see each other, then one that answers and sees the first."""
    dependency = {"kind": "matrix", "rows": [[0, 0, 1], [0, 0, 1], [0, 0, 0]]}
    return kind(toy_tasks(), toy_team("a_0", "b_0", "c_0"), dependency=dependency, **kwargs)
