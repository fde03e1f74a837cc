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
| Infos | numbers only, the same keys for all agents from reset on: see `INFO_KEYS` in `infos` |
| Agents | those of the team; an agent that no plan lets act stays idle |

Version history: v0, first version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from marft_envs.communication.action_views import Communication
from marft_envs.dependency import Dependency, DependencyError, Roster, as_dependency
from marft_envs.game.arguments import check_tasks, longest_conversation, one_of, positive
from marft_envs.game.episode import Episode
from marft_envs.game.infos import Infos
from marft_envs.game.observation import OWN_ACTIONS, Views, Window
from marft_envs.game.readable_game import ReadableGame
from marft_envs.game.rewards import RewardFunction, TeamReward, as_reward
from marft_envs.game.secrets import PLACES, Secret, draw_canaries, with_canary
from marft_envs.game.state import GameState, RoundHistory
from marft_envs.game.task import (
    Outcome,
    RecordedSession,
    Session,
    Task,
    Tasks,
    choose_task,
    default_reward,
    is_slow,
    own_settings,
    session_starter,
)
from marft_envs.game.turn import Turn
from marft_envs.spaces import Message, UnicodeText, clean, fit
from marft_envs.teams.profile import ENVIRONMENT
from marft_envs.teams.team import Team, as_team

Reward = str | Mapping[str, Any] | TeamReward | Callable[[Outcome], float]

_ROUND_TEXT = {"en": "Round {round} of {horizon}.", "zh": "第{round}轮，共{horizon}轮。"}


class FlexMG(ReadableGame):
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
        own_actions: Actions of an agent in earlier rounds than these that it still sees, without the texts that they
            answer: "window" (none), "last" or "all".
        compaction: Agent whose action replaces all rounds before its own, for itself and for those that see it. The
            dependency decides when it acts, e.g. `by_state` with `transcript`.
        canaries: "system" or "round" plants a random word that nobody needs into the private context of each agent: at
            the end of its system prompt, or of its own text of the first round. None plants none.
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

    # ⟨V, N, S, O, A, T, R, γ, D⟩, which never change. V is Unicode; γ is the learner's.
    possible_agents: list[str]  # N: the agents, in team order
    team: Team  # Their profiles: system prompts, who answers, tools
    state_space: UnicodeText  # S as text: the whole conversation
    observation_spaces: dict[str, spaces.Space[Any]]  # O: any text, by agent
    action_spaces: dict[str, spaces.Space[Any]]  # A: any text of up to `max_action_chars`, by agent
    tasks: Tasks  # Initial states; a task's session is T
    reward: RewardFunction  # R: the team reward of a round
    dependency: Dependency  # D: who sees whose action within a round
    communication: Communication  # Form of the actions on an edge of D
    horizon: int  # Number of rounds
    window: Window  # Rounds that observations show
    feedback: str  # "verdict" if the verdict opens the next round, else "none"
    max_action_chars: int  # Longer actions are cut
    canaries: str | None  # Place of the canaries, one of `PLACES`; None plants none
    render_mode: str | None  # None, "human" or "ansi"
    _begin_session: Callable[[Task, Roster, np.random.Generator], Session]  # `begin` of the tasks

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
        own_actions: str = "window",
        compaction: str | None = None,
        canaries: str | None = None,
        render_mode: str | None = None,
        name: str = "marft/custom-v0",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tasks = tasks
        self._begin_session = session_starter(tasks)
        self.team = as_team(team)
        self.horizon = positive(horizon, "horizon")
        self.max_action_chars = positive(max_action_chars, "max_action_chars")
        self.reward = as_reward(default_reward(tasks) if reward is None else reward)
        self.feedback = one_of(feedback, ("none", "verdict"), "feedback")
        self.canaries = one_of(canaries, (None, *PLACES), "canaries")
        self.render_mode = one_of(render_mode, (None, "human", "ansi"), "render_mode")
        self.metadata = {**FlexMG.metadata, **type(self).metadata, "name": name, "slow_step": is_slow(tasks)}
        check_tasks(tasks, self.horizon)
        self.dependency = self.team.dependency if dependency is None else as_dependency(dependency)
        self.dependency.check(self.team.roster, self.horizon)
        self.possible_agents = list(self.team.roster.agents)
        self.communication = Communication.of(communication, self.team.roster.agents)
        if compaction is not None:
            one_of(compaction, self.team.roster.agents, "compaction")
        shown = None if context_rounds is None else positive(context_rounds, "context_rounds")
        self.window = Window(shown, compaction or "", one_of(own_actions, OWN_ACTIONS, "own_actions"))
        self._views = Views(self.team.profiles, self.communication, self.window)
        self._infos = Infos(self.possible_agents, self.window, self.reward)
        room = longest_conversation(len(self.possible_agents), self.horizon, self.max_action_chars)
        self.observation_spaces = {agent: UnicodeText(room) for agent in self.possible_agents}
        self.action_spaces = {agent: UnicodeText(self.max_action_chars) for agent in self.possible_agents}
        self.state_space = UnicodeText(room)
        self.agents = []  # None live before the first reset
        self.np_random = None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the game as data, for records."""
        try:
            dependency: Any = self.dependency.to_dict()
        except DependencyError:
            dependency = "code"
        settings = {
            "tasks": self.tasks.name,
            **own_settings(self.tasks),
            "dependency": dependency,
            "horizon": self.horizon,
            "reward": self.reward.to_json(),
            "feedback": self.feedback,
            "communication": self.communication.to_json(),
            "max_action_chars": self.max_action_chars,
        }
        # Left out where they are not used: so are they in records made before they existed.
        if self.window.rounds is not None:
            settings["context_rounds"] = self.window.rounds
        if self.window.own != "window":
            settings["own_actions"] = self.window.own
        if self.window.compaction:
            settings["compaction"] = self.window.compaction
        if self.canaries is not None:
            settings["canaries"] = self.canaries
        return settings

    def episode(self) -> Episode:
        """Return the record of the game so far; before the next reset, also after the end."""
        episode = self._state.episode(self.metadata["name"], self.settings, self.team.fingerprint)
        secrets: tuple[Secret, ...] = (*self._state.canaries, *getattr(self.session, "secrets", ()))
        if not secrets:
            return episode
        answering = tuple(agent for agent in self.possible_agents if agent in self.team.roster.answering)
        return replace(episode, secrets=secrets, answering=answering)

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
        options = options or {}
        # s_0: the task, and what its session draws from the same generator. So the seed alone gives the game.
        index = choose_task(self.tasks, options, self.np_random, self.metadata["name"])
        task = self.tasks[index]
        session = self._begin_session(task, self.team.roster, self.np_random)
        if (outcomes := options.get("outcomes")) is not None:
            session = RecordedSession(session, outcomes)
        start: Outcome | None = getattr(session, "start", None)
        opening, private = (task.prompt, {}) if start is None else (start.observation, dict(start.private))
        briefings = {agent: clean(text) for agent, text in session.opening.items()}
        canaries: tuple[Secret, ...] = ()
        if self.canaries is not None:
            canaries = draw_canaries(self.possible_agents, seed, task.id)
            told = briefings if self.canaries == "system" else private
            for canary in canaries:
                told[canary.owner] = with_canary(told.get(canary.owner, ""), canary, self.team.language)
        self._state = GameState(task, index, seed, session, briefings, canaries)
        self.agents = self.possible_agents.copy()
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        if start is not None:
            self._state.phase = start.phase
        self._begin_round(opening, private)

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
        self._take(agent, *fit(str(action), self.max_action_chars))
        self._cumulative_rewards[agent] = 0.0  # `last` has shown it; what is paid now counts to its next turn
        played = self._state.rounds[-1]
        if played.is_over:
            self._finish_round()
            self._accumulate_rewards()
        else:
            self.rewards = dict.fromkeys(self.agents, 0.0)
            self.agent_selection = played.next_agent
            self._infos.begin_step(self._state)

    def select(self, agent: str) -> None:
        """Let an agent that is ready take its turn now, before those that come first in the turn order.

        It changes nothing that anybody sees, and the record keeps the turn order.

        Raises:
            ValueError: It is not ready.
        """
        played = self._state.rounds[-1]
        if not played.is_ready(agent):
            ready = [other for other in sorted(self.possible_agents) if played.is_ready(other)]
            raise ValueError(f"{agent} cannot act now; ready are {', '.join(ready) or 'no agents'}")
        self.agent_selection = agent

    def _begin_round(self, opening: str, private: Mapping[str, str]) -> None:
        """Open a round: the environment's messages, and the plan that D makes of the state."""
        state = self._state
        messages = {agent: Message("user", clean(text), ENVIRONMENT) for agent, text in private.items()}
        played = RoundHistory(Message("user", clean(opening), ENVIRONMENT), messages)
        state.begin(played)
        # D_t: chosen by the numbers of the state, then planned with all earlier turns in view.
        played.dependency = self.dependency.given(self._infos.begin_step(state))
        played.plan = played.dependency.plan(self.team.roster, len(state.rounds) - 1, state.turns)
        self.agent_selection = played.plan.order[0]
        self._views.begin_round(state)

    def _take(self, agent: str, text: str, fault: str) -> None:
        """Record an action; in an open round D then decides who acts next."""
        state, played = self._state, self._state.rounds[-1]
        number, layer = len(state.rounds) - 1, played.plan.layer_of[agent]
        observation, visible = self._views.of(agent)  # before the action, as the agent saw it
        turn = Turn(agent, number, layer, visible, observation, text, fault)
        if played.plan.open:
            # A routed round: the action may name who acts next. A route that D refuses is a fault of this turn.
            played.plan = played.dependency.plan(self.team.roster, number, [*state.turns, turn])
            turn = turn._replace(fault="; ".join(part for part in (fault, played.plan.fault) if part))
        state.take(turn)
        if agent == self.window.compaction:
            state.compact()
        self._views.take(agent, played.plan)

    def _finish_round(self) -> None:
        """Let the task transition and pay the team; then open the next round, or end the game."""
        state, number = self._state, len(self._state.rounds) - 1
        last_round = number + 1 == self.horizon
        outcome = state.session.advance(state.rounds[-1].turns, round=number, last_round=last_round)
        state.finish(outcome)
        # The task's word wins over the horizon: the learner bootstraps from a value only where a game is truncated.
        terminated = outcome is not None and outcome.terminated
        ended = terminated or last_round
        # The record is passed as a function: only rewards over the joint trajectory pay for building it.
        reward, state.terms = self.reward.pay(outcome, self.episode, ended=ended)
        if not math.isfinite(reward):
            raise ValueError(
                f"{self.metadata['name']}: the reward of task {state.task.id!r} is {reward}, "
                f"wanted a finite number; fix the reward function for {outcome}"
            )
        state.rewards.append(reward)
        self.rewards = dict.fromkeys(self.agents, reward)
        if ended:
            self.terminations = dict.fromkeys(self.agents, terminated)
            self.truncations = dict.fromkeys(self.agents, not terminated)
            self.agent_selection = self.agents[0]  # PettingZoo removes ended agents one by one, by steps with None
            self._infos.begin_step(state)
            return
        # o_{t+1}: the task's own text, then the verdict if agents may see it, then the number of the round.
        opening = []
        if outcome is not None:
            state.phase = outcome.phase
            opening.append(outcome.observation)
            if self.feedback == "verdict":
                opening.append(outcome.verdict)
        if getattr(state.session, "announces_rounds", False):
            opening.append(_ROUND_TEXT[self.team.language].format(round=number + 2, horizon=self.horizon))
        self._begin_round("\n".join(part for part in opening if part), outcome.private if outcome else {})
