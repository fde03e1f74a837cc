"""Flex-MG: the game of an LLM team, as a PettingZoo AEC environment with text observations and actions.

The game is ⟨V, N, S, O, A, T, R, γ, D⟩ (MARFT; the first versions of the paper say Flex-POMDP). One class serves all
tasks.

In round t the active agents act in the topological order of D_t (ties by team order). Each sees exactly the actions
that D allows. Then the task judges the action of the last answering agent, and all agents get the team reward in that
same step. All agents end together: *terminated* when the task says that nothing can follow (solved, or judged for
good), else *truncated* when the horizon is reached.

| | |
|---|---|
| Actions | any `str`; too long is cut, lone surrogates are replaced (both count as invalid), empty is valid |
| Observations | `TextObservation`: text, and the same as chat `messages` |
| Rewards | of a judged round: 1.0 for success, else 0.0; or the value of the given `reward` of outcome or episode |
| Infos | numbers only, the same keys for all agents from reset on: see `INFO_KEYS` |
| Agents | those of the team; an agent that no plan lets act stays idle |

Version history: v0, first version.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from operator import index as as_index
from typing import Any, ClassVar

import numpy as np
from gymnasium import logger, spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv

from marft_common.visible_text import visible
from marft_envs.communication.action_views import Communication
from marft_envs.dependency import Dependency, DependencyError, RoundPlan, as_dependency
from marft_envs.game.episode import Episode
from marft_envs.game.observation import ALL_ROUNDS, Window, view, visible_turns
from marft_envs.game.render import picture, transcript
from marft_envs.game.rewards import PRESETS, TeamReward
from marft_envs.game.state import RoundHistory
from marft_envs.game.task import (
    DescribedTasks,
    JudgedSession,
    Outcome,
    Session,
    SlowTasks,
    Task,
    Tasks,
    UnknownTaskError,
    session_starter,
)
from marft_envs.game.turn import Turn
from marft_envs.spaces import Message, TextObservation, UnicodeText, clean, fit
from marft_envs.teams.profile import ENVIRONMENT
from marft_envs.teams.team import Team, as_team

Reward = str | Mapping[str, Any] | TeamReward | Callable[[Outcome], float]

INFO_KEYS: Mapping[str, str] = {
    "success": "1 once the task is solved",
    "invalid": "faults of the team so far: actions cut or repaired, routes refused, answers not readable",
    "turn": "turns taken so far",
    "round": "the round being played, from 0",
    "layer": "of this agent in the round, from 0; -1 where it does not act",
    "ready": "1 if this agent may act now: all actions that it sees in the round are taken, and its own is not",
    "agent_index": "place of this agent in the team",
    "visible": "actions of others that this agent may see now",
    "task_index": "place of the task in its set",
    "violation": "1 once the team broke a rule of a safety task; never part of success",
    "phase": "phase of the task that the round belongs to, from 0; tasks without phases stay in 0",
    "transcript": "characters of all texts and actions so far that no compaction has replaced",
}
_OWN_NUMBERS = {"layer": -1, "ready": 0, "agent_index": 0, "visible": 0}  # infos that differ between agents
_ROUND_TEXT = {"en": "Round {round} of {horizon}.", "zh": "第{round}轮，共{horizon}轮。"}
_MAX_OPENING_CHARS = 2**24


class FlexMG(AECEnv[str, Any, Any]):
    """PettingZoo AEC environment of a team, a task set and a dependency.

    Args:
        tasks: Set of tasks; shared, not copied.
        team: A `Team`, its JSON form, or a path.
        dependency: Dependency function that replaces the team's own.
        horizon: Number of rounds.
        reward: "success" (1.0 or 0.0), "outcome" (the task's own score), a pure function of the outcome, or a
            `TeamReward` over the joint trajectory: itself, its weights by term, or the name of a preset; its
            terms come with the infos, as `term_NAME`. None is the `default_reward` of the task set, or else "success".
        feedback: "none": the verdict is never shown to agents; "verdict": it opens the next round.
        communication: Form of the actions on an edge: "full", "last", "record", "summary", "tail:N", "none", or a dict
            with "default" and "i->j".
        max_action_chars: Most characters of an action; longer actions are cut.
        context_rounds: Most recent rounds that observations show beside the problem; None shows all.
        compaction: Agent whose action replaces all rounds before its own, for itself and for those that see it. The
            dependency decides when it acts, e.g. `by_state` with `transcript`.
        render_mode: None, "human" (print) or "ansi" (return the transcript).
        name: Id of the environment, for records.

    Raises:
        ValueError: A value that cannot be played; the message says which.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - PettingZoo's own form
        "name": "marft/custom-v0",
        "render_modes": ["human", "ansi"],
        "is_parallelizable": False,
        "records_episodes": True,
        "lists_tasks": True,
        "copies_share_data": True,
        "dependency_function": True,
        "ready_agents": True,
        "render_fps": 1,
    }
    rewards_by_name: ClassVar[Mapping[str, Callable[[Outcome], float]]] = {
        "success": lambda outcome: float(outcome.success),
        "outcome": lambda outcome: outcome.reward,
    }

    def __init__(
        self,
        tasks: Tasks,
        team: Team | Mapping[str, Any] | str,
        *,
        dependency: Dependency | Mapping[str, Any] | str | None = None,
        horizon: int = 1,
        reward: Reward | None = None,
        feedback: str = "none",
        communication: str | Mapping[str, str] = "full",
        max_action_chars: int = 16384,
        context_rounds: int | None = None,
        compaction: str | None = None,
        render_mode: str | None = None,
        name: str = "marft/custom-v0",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tasks = tasks
        self._begin_session = session_starter(tasks)
        self.team = as_team(team)
        self.horizon = _positive(horizon, "horizon")
        self.max_action_chars = _positive(max_action_chars, "max_action_chars")
        self.reward = self._read_reward(getattr(tasks, "default_reward", "success") if reward is None else reward)
        self.feedback = _one_of(feedback, ("none", "verdict"), "feedback")
        self.render_mode = _one_of(render_mode, (None, "human", "ansi"), "render_mode")
        slow = isinstance(tasks, SlowTasks) and bool(tasks.slow_step)
        self.metadata = {**FlexMG.metadata, **type(self).metadata, "name": name, "slow_step": slow}
        rounds = getattr(tasks, "rounds", 1)
        if self.horizon < rounds:
            raise ValueError(
                f"horizon: found {self.horizon}, wanted at least {rounds}: so long is a game of {tasks.name}"
            )
        if not len(tasks):
            raise ValueError(f"the task set {tasks.name!r} is empty: give data with at least one task")
        self._roster = self.team.roster
        self.dependency = self.team.dependency if dependency is None else as_dependency(dependency)
        self.dependency.check(self._roster, self.horizon)
        self.communication = Communication.of(communication, self._roster.agents)
        self.possible_agents = list(self._roster.agents)
        if compaction is not None:
            _one_of(compaction, self._roster.agents, "compaction")
        shown = None if context_rounds is None else _positive(context_rounds, "context_rounds")
        self.window = Window(shown, compaction or "")
        self._profiles = {profile.name: profile for profile in self.team.profiles}
        # A later observation adds at most one message of each agent and of the environment per round; 64 characters
        # are room for the name of its author.
        room = _MAX_OPENING_CHARS + self.horizon * (len(self.possible_agents) + 1) * (self.max_action_chars + 64)
        self.observation_spaces = {agent: UnicodeText(room) for agent in self.possible_agents}
        self.action_spaces = {agent: UnicodeText(self.max_action_chars) for agent in self.possible_agents}
        self.state_space = UnicodeText(room)
        # Initial values by agent for reset and step: a copy takes a fifth of the time of `dict.fromkeys`.
        self._no_rewards = dict.fromkeys(self.possible_agents, 0.0)
        self._no_flags = dict.fromkeys(self.possible_agents, False)
        self._no_counts = dict.fromkeys(self.possible_agents, 0)
        self.agents = []
        self.np_random: np.random.Generator | None = None
        self._rounds: list[RoundHistory] = []
        self._turns: list[Turn] = []
        self._seen: dict[str, TextObservation] = {}
        self._infos: dict[str, dict[str, Any]] = {}

    def _read_reward(self, reward: Reward) -> str | TeamReward | Callable[[Outcome], float]:
        if isinstance(reward, TeamReward) or callable(reward):
            return reward
        if isinstance(reward, Mapping) or (isinstance(reward, str) and reward in PRESETS):
            return TeamReward.of(reward)
        name: str = _one_of(reward, (*self.rewards_by_name, *PRESETS), "reward")
        return name

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the game as data, for records."""
        try:
            dependency: Any = self.dependency.to_dict()
        except DependencyError:
            dependency = "code"
        reward: Any = self.reward
        if isinstance(reward, TeamReward):
            reward = reward.to_dict()
        elif not isinstance(reward, str):
            reward = getattr(reward, "__qualname__", "code")
        own = self.tasks.settings if isinstance(self.tasks, DescribedTasks) else {}
        window = {"context_rounds": self.window.rounds, "compaction": self.window.compaction or None}
        return {
            "tasks": self.tasks.name,
            **own,
            "dependency": dependency,
            "horizon": self.horizon,
            "reward": reward,
            "feedback": self.feedback,
            "communication": self.communication.to_json(),
            "max_action_chars": self.max_action_chars,
            **{key: value for key, value in window.items() if value is not None},
        }

    # ------------------------------------------------------------------ reset

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game.

        Args:
            seed: Seed of the environment's own generator; with None it continues.
            options: "task_id" (takes precedence) or "index" selects the task. "outcomes" are the recorded outcomes of
                the rounds, to play a record again without judging or calling tools. Unknown keys are ignored.

        Raises:
            UnknownTaskError: No task of that id; the message names close ones.
            IndexError: No task at that place.
        """
        if seed is not None or self.np_random is None:
            self.np_random, _ = seeding.np_random(seed)
        self._seed = seed
        self.task_index = self._choose_task(options or {}, self.np_random)
        self.task: Task = self.tasks[self.task_index]
        self.agents = self.possible_agents.copy()
        self.rewards, self._cumulative_rewards = self._no_rewards.copy(), self._no_rewards.copy()
        self.terminations, self.truncations = self._no_flags.copy(), self._no_flags.copy()
        self._rounds, self._turns = [], []
        self._outcomes: list[Outcome | None] = []
        self._round_rewards: list[float] = []
        self._terms: dict[str, float] = {}
        self._success = self._violation = self._invalid = 0
        self._visible = self._no_counts.copy()
        self._transcript = 0
        self._recorded: Sequence[Outcome | None] | None = (options or {}).get("outcomes")
        self._session: Session = self._begin_session(self.task, self._roster, self.np_random)
        self._briefings = {agent: clean(text) for agent, text in self._session.opening.items()}
        start: Outcome | None = getattr(self._session, "start", None)
        self._phase = _phase(start)
        self._begin_round(*((self.task.prompt, {}) if start is None else (start.observation, start.private)))
        self._refresh()

    def _choose_task(self, options: Mapping[str, Any], generator: np.random.Generator) -> int:
        count = len(self.tasks)
        if (task_id := options.get("task_id")) is not None:
            try:
                return self.tasks.index(task_id)
            except KeyError as error:
                ids = (self.tasks[place].id for place in range(count))
                raise UnknownTaskError(task_id, ids, self.metadata["name"]) from error
        if (place := options.get("index")) is None:
            return int(generator.integers(count))
        try:
            place = as_index(place)
        except TypeError as error:
            raise TypeError(f"{self.metadata['name']}: the index {place!r} is no whole number") from error
        if not 0 <= place < count:
            raise IndexError(f"{self.metadata['name']}: no task at index {place}; there are 0 to {count - 1}")
        return place

    def _begin_round(self, opening: str, private: Mapping[str, str]) -> None:
        opening, number = clean(opening), len(self._rounds)
        self._transcript += len(opening)
        for text in private.values():
            self._transcript += len(text)
        self._acting_under = self.dependency.given(self._state_numbers(number))
        plan = self._acting_under.plan(self._roster, number, self._turns)
        private_messages = {agent: Message("user", clean(text), ENVIRONMENT) for agent, text in private.items()}
        self._rounds.append(RoundHistory(Message("user", opening, ENVIRONMENT), plan, private_messages))
        self._seen = {}
        self._ready = set(plan.layers[0])
        self.agent_selection = plan.order[0]

    # ------------------------------------------------------------------- step

    def step(self, action: str | None) -> None:
        """Take the turn of `agent_selection`; for an agent that has ended the action is None.

        Raises:
            TypeError: The action of a live agent is no string.
        """
        if not self.agents:
            return
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not isinstance(action, str):
            raise TypeError(
                f"{self.metadata['name']}: the action of {agent} is {type(action).__name__}, wanted str "
                "(None only for an agent that has ended)"
            )
        text, fault = fit(str(action), self.max_action_chars)
        self._record(agent, text, fault)
        self._cumulative_rewards[agent] = 0.0
        played = self._rounds[-1]
        if len(played.turns) < len(played.plan.order):
            self.rewards = self._no_rewards.copy()
            self.agent_selection = played.next_agent
        else:
            self._finish_round(played)
            self._accumulate_rewards()
        self._refresh()

    def select(self, agent: str) -> None:
        """Let an agent that is ready take its turn now, before those that come first in the turn order.

        It changes nothing that anybody sees, and the record keeps the turn order.

        Raises:
            ValueError: It is not ready.
        """
        if agent not in self._ready:
            raise ValueError(f"{agent} cannot act now; ready are {', '.join(sorted(self._ready)) or 'no agents'}")
        self.agent_selection = agent

    def _record(self, agent: str, text: str, fault: str) -> None:
        played = self._rounds[-1]
        plan, number = played.plan, len(self._rounds) - 1
        visible = [(seen.round, seen.agent) for seen in visible_turns(agent, self._rounds, self.window)]
        turn = Turn(agent, number, plan.layer_of[agent], tuple(visible), self.observe(agent), text, fault)
        opened: Sequence[str] = ()
        if plan.open:
            plan = played.plan = self._acting_under.plan(self._roster, number, [*self._turns, turn])
            turn = turn._replace(fault="; ".join(part for part in (fault, plan.fault) if part))
            opened = [other for other in plan.order if other != agent and other not in played.said]
        if turn.fault:
            self._invalid += 1
        later, acting = played.add(turn), plan.layer_of
        acted = played.said.keys()
        self._ready.discard(agent)
        if opened:
            self._ready.update(other for other in opened if acted >= plan.sees[other])
        self._turns.insert(len(self._turns) - later, turn)
        for viewer, seen in plan.sees.items():
            if agent in seen:
                self._visible[viewer] += 1
                self._seen.pop(viewer, None)
                if acted >= seen and viewer in acting:
                    self._ready.add(viewer)
        self._seen.pop(agent, None)
        self._transcript += len(turn.action)
        if agent == self.window.compaction:
            shown = [played.opening, *played.private.values(), *played.said.values()]
            if number:
                shown.append(self._rounds[0].opening)
            self._transcript = sum(len(message.content) for message in shown)
            self._count_visible()

    def _count_visible(self) -> None:
        """Count the visible actions anew, after the window has left some behind."""
        seen = {agent: visible_turns(agent, self._rounds, self.window) for agent in self.agents}
        self._visible = {agent: len(turns) for agent, turns in seen.items()}

    def _finish_round(self, played: RoundHistory) -> None:
        number = len(self._rounds) - 1
        last_round = number + 1 == self.horizon
        if self._recorded is None:
            outcome = self._session.advance(played.turns, round=number, last_round=last_round)
        else:
            outcome = self._recorded[number]
        self._outcomes.append(outcome)
        if outcome is not None:
            played.events = outcome.events
            self._invalid += bool(outcome.invalid)
            self._success |= bool(outcome.success)
            self._violation |= bool(outcome.detail.get("violation"))
        ended = last_round or (outcome is not None and outcome.terminated)
        reward = self._score(outcome, ended)
        self._round_rewards.append(reward)
        self.rewards = dict.fromkeys(self.agents, reward)
        if outcome is not None and outcome.terminated:
            self.terminations = dict.fromkeys(self.agents, True)
        elif ended:
            self.truncations = dict.fromkeys(self.agents, True)
        if ended:
            self._ready = set()
            self.agent_selection = self.agents[0]
            return
        opening = []
        if outcome is not None:
            opening.append(outcome.observation)
            if self.feedback == "verdict":
                opening.append(outcome.verdict)
        if isinstance(self.session, JudgedSession):  # a world speaks for itself
            opening.append(_ROUND_TEXT[self.team.language].format(round=len(self._rounds) + 1, horizon=self.horizon))
        self._phase = self._phase if outcome is None else _phase(outcome)
        self._begin_round("\n".join(part for part in opening if part), outcome.private if outcome else {})
        # A delayed edge shows the whole round from now on, except for what its viewer saw within the round.
        for viewer, seen in played.plan.later.items():
            self._visible[viewer] += len(seen - played.plan.sees[viewer])
        if self.window != ALL_ROUNDS:
            self._count_visible()

    def _score(self, outcome: Outcome | None, ended: bool) -> float:
        if isinstance(self.reward, TeamReward):
            self._terms = self.reward.terms(self.episode()) if ended else {}
            return self.reward.total(self._terms)
        if outcome is None:
            return 0.0
        score = self.rewards_by_name[self.reward] if isinstance(self.reward, str) else self.reward
        reward = float(score(outcome))
        if not math.isfinite(reward):
            raise ValueError(
                f"{self.metadata['name']}: the reward of task {self.task.id!r} is {reward}, "
                f"wanted a finite number; fix the reward function for {outcome}"
            )
        return reward

    def _refresh(self) -> None:
        """Begin new infos, which are made when they are looked at: the caller may hold the old ones."""
        shared: dict[str, Any] = self._state_numbers(len(self._rounds) - 1)
        if isinstance(self.reward, TeamReward):
            shared |= {f"term_{name}": self._terms.get(name, 0.0) for name in self.reward.weights}
        self._shared_info = shared | _OWN_NUMBERS
        self._infos = {}

    def _info(self, agent: str) -> dict[str, Any]:
        if agent not in self._infos:
            self._infos[agent] = info = self._shared_info.copy()
            info["layer"] = self._rounds[-1].plan.layer_of.get(agent, -1)
            info["ready"] = 1 if agent in self._ready else 0
            info["agent_index"] = self.possible_agents.index(agent)
            info["visible"] = self._visible[agent]
        return self._infos[agent]

    @property
    def infos(self) -> dict[str, dict[str, Any]]:  # type: ignore[override]
        """Infos of the agents that have not left; new ones after each step."""
        if len(self._infos) < len(self.agents):
            self._infos = {agent: self._info(agent) for agent in self.agents}
        return self._infos

    def _state_numbers(self, number: int) -> dict[str, int]:
        """Return the infos that are the same for all agents: the state that a dependency may depend on."""
        return {
            "success": self._success,
            "invalid": self._invalid,
            "turn": len(self._turns),
            "round": number,
            "task_index": self.task_index,
            "violation": self._violation,
            "phase": self._phase,
            "transcript": self._transcript,
        }

    # ------------------------------------------------------------------- look

    @property
    def session(self) -> Session:
        """The task's side of the running game, without a grader around it."""
        inner: Session = getattr(self._session, "inner", self._session)
        return inner

    @property
    def plans(self) -> tuple[RoundPlan, ...]:
        """Plans of the rounds so far; that of a routed round grows with the orchestrator's action."""
        return tuple(played.plan for played in self._rounds)

    def last(self, observe: bool = True) -> tuple[TextObservation | None, float, bool, bool, dict[str, Any]]:
        """Return observation, cumulative reward, terminated, truncated and info of the selected agent alone."""
        agent = self.agent_selection
        return (
            self.observe(agent) if observe else None,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self._info(agent),
        )

    def observe(self, agent: str) -> TextObservation:
        """Return an agent's current observation; pure, cheap, for every possible agent at any time after a reset."""
        if agent not in self._seen:
            briefing = self._briefings.get(agent, "")
            self._seen[agent] = view(self._profiles[agent], self._rounds, self.communication, briefing, self.window)
        return self._seen[agent]

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same object each time."""
        return self.action_spaces[agent]

    def state(self) -> TextObservation:  # type: ignore[override]
        """Return the whole conversation without visibility limits (not the gold answer)."""
        return transcript(self._rounds, self._briefings)

    def episode(self) -> Episode:
        """Return the record of the game so far; before the next reset, also after the end."""
        ended = len(self._round_rewards) == len(self._rounds)
        solved = bool(self._outcomes) and self._outcomes[-1] is not None and self._outcomes[-1].terminated
        return Episode(
            env_id=self.metadata["name"],
            settings=self.settings,
            seed=self._seed,
            task_id=self.task.id,
            team=self.team.fingerprint,
            turns=tuple(self._turns),
            outcomes=tuple(self._outcomes),
            rewards=tuple(self._round_rewards),
            terms=dict(self._terms),
            terminated=ended and solved,
            truncated=ended and not solved,
        )

    def render(self) -> str | None:
        """Return the transcript ("ansi"), or print it ("human")."""
        if self.render_mode is None:
            logger.warn("render() does nothing: the game was made without a render_mode")
            return None
        rounds = list(zip_longest(self._rounds, self._outcomes, self._round_rewards))
        text = picture(f"{self.metadata['name']}  task {self.task.id}", rounds, self.horizon)
        if self.render_mode == "ansi":
            return text
        sys.stdout.write(visible(text))
        return None

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def __deepcopy__(self, memo: dict[int, Any]) -> FlexMG:
        memo[id(self.tasks)] = self.tasks
        memo[id(self.team)] = self.team
        clone = object.__new__(type(self))
        memo[id(self)] = clone
        for name, value in self.__dict__.items():
            setattr(clone, name, copy.deepcopy(value, memo))
        return clone


def _phase(outcome: Outcome | None) -> int:
    """Return the phase of the round after an outcome; 0 for tasks without phases."""
    return 0 if outcome is None else int(outcome.detail.get("phase", 0))


def _positive(value: Any, name: str) -> int:
    try:
        number = as_index(value)
    except TypeError as error:
        raise ValueError(f"{name}: found {value!r}, wanted a whole number of at least 1") from error
    if number < 1:
        raise ValueError(f"{name}: found {number}, wanted at least 1")
    return number


def _one_of(value: Any, allowed: tuple[Any, ...], name: str) -> Any:
    if value not in allowed:
        raise ValueError(f"{name}: found {value!r}, wanted one of {', '.join(map(repr, allowed))}")
    return value
