"""A running game with text observations, recorded as a trajectory; it may start with replayed actions."""

from __future__ import annotations

import reprlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from marft_agents.models.context_window import ContextOverflowError
from marft_agents.policies.policy import Request, encodable
from marft_agents.trajectory import Action, EpisodeStart, IntArray, SampledTurn, Trajectory
from marft_common.running_game import EndlessGameError, RunningGame

SCALARS = (int, float, np.number, np.bool_)
NO_TOKENS: IntArray = np.zeros(0, np.int32)
NOT_DETERMINISTIC = "a replay needs an environment that is deterministic given seed, options and actions"


class ObservationError(ValueError):
    """An observation that is not well-formed text; names the finding and the wanted form."""


class ReplayError(RuntimeError):
    """A replay that diverged from its record; names the turn, the value found and the value recorded."""


class RecordedGame(RunningGame):
    """An episode in progress, recorded as a trajectory.

    Agents may act at the same time where the environment's metadata say `"ready_agents": True`. It promises that
    `infos[agent]["ready"]` is 1 for each agent whose observation no action of the others that are ready can change.
    Such agents are asked together. The environment takes their actions one by one, in its own order.

    Args:
        env: The environment; nothing else uses it meanwhile.
        episode: Episode to play.
        encode: Maps (agent, observation) to prompt ids. Used to bootstrap a truncated episode, and to compare the
            observations of a replay with the recorded prompts. None does neither. Only `requests` and `trajectory`
            call it.
        max_turns: Number of turns after which an unfinished game fails; 0: no limit.
        valued: Agents whose states have a value, to bootstrap one of them; None for all that play tokens.
    """

    env: Any

    def __init__(
        self,
        env: Any,
        episode: EpisodeStart,
        encode: Callable[[str, str], IntArray] | None = None,
        max_turns: int = 0,
        valued: Collection[str] | None = None,
    ) -> None:
        super().__init__(env)
        self.episode, self.encode, self.max_turns, self.valued = episode, encode, max_turns, valued
        self._turns: list[SampledTurn] = []
        self._replayed: list[str | None] = []  # observation before each prefix turn, until compared
        self._acted: set[str] = set()
        self._round = 0
        self._layer: int | None = None
        self._following = ("", "")  # after a truncation: agent to bootstrap, its observation
        self._infos: Mapping[str, float] = {}
        self._waiting: dict[str, tuple[Action, int | None]] = {}  # generated, not played yet; action and layer
        self._step_seconds = 0.0

    def start(self) -> None:
        """Reset the environment."""
        self.reset(self.episode.seed, self.episode.options)

    def replay(self) -> None:
        """Play the fixed actions of the episode's prefix unchanged."""
        for number, action in enumerate(self.episode.prefix):
            if self.over:
                if self.failure is None:
                    self.fail(f"replay: the game was over before turn {number}; {NOT_DETERMINISTIC}")
                return
            self._replayed.append(self._observe(self.agent))
            if not self.over:
                self.step(action)

    def requests(self, seed: int) -> list[Request]:
        """Return the turns that can be generated now; none if the game is over.

        It is the turn of the agent that acts next, and those of all others that are ready too.

        Args:
            seed: Seed of the policies' randomness.
        """
        self._compare_replayed()
        if not self.over:
            self.attempt("end of the game", self._check_length)
        ready = [] if self.over else self.attempt("who is ready", self._ready) or []
        asked: list[Request] = []
        for number, agent in enumerate(ready, len(self._turns) + len(self._waiting)):
            observation = self._observe(agent)
            if observation is None:
                return []
            randomness = np.random.SeedSequence([seed, self.episode.number, number])
            asked.append(Request(agent, observation, np.random.default_rng(randomness)))
        return asked

    def play(self, actions: Mapping[str, Action]) -> None:
        """Play the turns whose actions are known; the game fails if a policy could not act.

        Args:
            actions: Actions by agent, one for each turn that `requests` returned.
        """
        for agent, action in actions.items():
            self._waiting[agent] = action, self._layer_of(agent)
        # The environment's own order decides: an action waits until its agent is the next.
        while not self.over and self.agent in self._waiting:
            agent, number = self.agent, len(self._turns)
            self.attempt("end of the game", self._check_length)
            action, _ = self._waiting[agent]
            if action.failure is not None:
                self.fail(action.failure)
            if not self.over:
                self.step(action)
            if action.failure is not None or len(self._turns) > number:
                del self._waiting[agent]

    def _ready(self) -> list[str]:
        """Return the agents to ask: the one that acts next, and the others that are ready and were not asked yet."""
        if not (getattr(self.env, "metadata", None) or {}).get("ready_agents"):
            return [self.agent]
        asked = [self.agent]
        infos = self.env.infos  # once: every wrapper on the way costs a call
        for agent in self.env.agents:
            if infos[agent].get("ready") and agent != self.agent and agent not in self._waiting:
                asked.append(agent)
        return asked

    def trajectory(self) -> Trajectory:
        """Return the record of the game."""
        final_agent, final_prompt = self.attempt("observation after the last round", self._final) or ("", NO_TOKENS)
        game = self.attempt("record of the game", self._record)
        unplayed = []  # turns generated in vain: their step failed, or the game was over before it
        for agent, (action, layer) in self._waiting.items():
            unplayed.append(SampledTurn(agent, action, 0.0, self._round, layer))
        return Trajectory(
            seed=self.episode.seed,
            group=self.episode.group,
            turns=tuple(self._turns),
            terminated=not self.cut_off,
            truncated=bool(self.cut_off),
            final_agent=final_agent,
            final_prompt_ids=final_prompt,
            infos=self._infos,
            failure=self.failure,
            game=game,
            unplayed=tuple(unplayed),
            step_seconds=self._step_seconds,
        )

    def _final(self) -> tuple[str, IntArray]:
        """Return the agent to bootstrap with its prompt; no agent where the prompt does not fit its context window."""
        if self.encode is None or self.failure is not None or not self._following[0]:
            return "", NO_TOKENS
        try:
            return self._following[0], self.encode(*self._following)
        except ContextOverflowError:
            return "", NO_TOKENS

    def _step(self, action: Action) -> None:
        self._round, self._layer = self._round_of(self.agent), self._layer_of(self.agent)
        started = time.perf_counter()
        try:
            super()._step(action.text)
        finally:
            self._step_seconds += time.perf_counter() - started
        rewards = {agent: float(reward) for agent, reward in self.env.rewards.items()}
        mean = float(np.mean(list(rewards.values()))) if rewards else 0.0
        own = rewards if len(set(rewards.values())) > 1 else None  # None: equal for all, and told by the mean
        self._turns.append(SampledTurn(self.agent, action, mean, self._round, self._layer, own))
        self._infos = numeric(self.env.infos.get(self.agent, {}))
        self._following = self._next_valued()

    def _observe(self, agent: str) -> str | None:
        """Return the observation of an agent; None, and a failure, if it is not well-formed text."""
        return self.attempt(f"observation of {agent}", lambda: checked(self.env.observe(agent)))

    def _check_length(self) -> None:
        if self.max_turns and len(self._turns) >= self.max_turns:
            raise EndlessGameError(
                f"{len(self._turns)} turns were played and the game is not over: let the environment truncate it, or "
                "raise max_turns (--max-turns; 0: no limit)"
            )

    def _record(self) -> dict[str, Any] | None:
        """Return the environment's record of the game, with the token counts that it could not know."""
        if self.failure is not None or not (getattr(self.env, "metadata", None) or {}).get("records_episodes"):
            return None
        record: dict[str, Any] = self.env.unwrapped.episode().to_dict()
        for index, (written, turn) in enumerate(zip(record["turns"], self._turns, strict=True)):
            written["tokens"] = turn.action.num_tokens or None
            if turn.action.shortened:
                written["shortened"] = self._shortened_turns(index, written.get("visible", []))
        return record

    def _shortened_turns(self, index: int, visible: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
        """Return author, round and number of removed tokens for each turn that was shortened in a prompt.

        Args:
            index: Index of the turn that read the prompt.
            visible: Visible turns as (round, agent), oldest first. Messages and turns of one author are matched from
                the newest back, as a form of communication may show the newest only.
        """
        reader = self._turns[index]
        found = []
        for note in reader.action.shortened:
            if note.author == reader.agent:
                rounds = [turn.round for turn in self._turns[:index] if turn.agent == reader.agent]
            else:
                rounds = [number for number, agent in visible if agent == note.author]
            # `later` messages of the same author follow the shortened one. None: a message that is no turn.
            number = rounds[-1 - note.later] if note.later < len(rounds) else None
            found.append({"author": note.author, "round": number, "removed": note.removed})
        return found

    def _compare_replayed(self) -> None:
        """Fail the game if an observation of its replay does not match the recorded prompt."""
        seen, self._replayed = self._replayed, []
        for number, (turn, observation) in enumerate(zip(self._turns, seen, strict=False)):
            if self.failure is None and self.encode is not None and len(turn.action.prompt_ids):
                self.attempt(f"replay of turn {number}", self._compare_prompt, turn, observation)

    def _compare_prompt(self, turn: SampledTurn, observation: str) -> None:
        assert self.encode is not None
        if not np.array_equal(self.encode(turn.agent, observation), turn.action.prompt_ids):
            raise ReplayError(f"{turn.agent} sees another prompt than was recorded; {NOT_DETERMINISTIC}")

    def _next_valued(self) -> tuple[str, str]:
        """Return the agent to bootstrap after a truncation, and its observation; ("", "") if none.

        Of the agents cut off by the truncation, it is the one that would act next. Only agents that play tokens have a
        value; of those, `valued` names the trained ones. The next round is assumed to start with the agent that started
        this one. Its observation is read at once, since an environment forgets its dead agents.
        """
        valued = []
        for turn in self._turns:
            has_value = len(turn.action.token_ids) and (self.valued is None or turn.agent in self.valued)
            if has_value and turn.agent in self.cut_off:
                valued.append(turn)
        opening = [turn for turn in valued if turn.round == self._round] or valued
        return (opening[0].agent, checked(self.env.observe(opening[0].agent))) if opening else ("", "")

    def _round_of(self, agent: str) -> int:
        """Return the round of this turn from the infos; without them, a new round starts when an agent acts again."""
        told = self.env.infos.get(agent, {}).get("round")
        if isinstance(told, SCALARS):
            return int(told)
        if agent in self._acted:
            self._acted.clear()
            self._round += 1
        self._acted.add(agent)
        return self._round

    def _layer_of(self, agent: str) -> int | None:
        """Return the agent's layer in the round from the infos; None if they hold none."""
        told = self.env.infos.get(agent, {}).get("layer")
        return int(told) if isinstance(told, SCALARS) and told >= 0 else None


def checked(observation: Any) -> str:
    """Return an observation after checking that it is text, with a well-formed chat form if any.

    Raises:
        ObservationError: The observation is not text, is not encodable as UTF-8, or has a malformed chat form.
    """
    if not isinstance(observation, str):
        raise ObservationError(f"found {reprlib.repr(observation)} ({type(observation).__name__}), wanted str")
    _check_text("the text", observation)
    messages = getattr(observation, "messages", None) or ()
    if isinstance(messages, str) or not isinstance(messages, Sequence):
        raise ObservationError(f"messages: found {type(messages).__name__}, wanted a sequence of mappings")
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise ObservationError(
                f"messages[{number}]: found {type(message).__name__}, wanted a mapping with role and content"
            )
        for key in ("role", "content", *({"name"} & message.keys())):
            _check_text(f"messages[{number}][{key!r}]", message.get(key))
    return observation


def _check_text(where: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ObservationError(f"{where}: found {reprlib.repr(text)}, wanted str")
    if not encodable(text):
        place = next(i for i, character in enumerate(text) if not encodable(character))
        raise ObservationError(
            f"{where}: found the lone surrogate {text[place]!r} at character {place}, wanted text that UTF-8 can encode"
        )


def numeric(infos: Mapping[str, Any]) -> dict[str, float]:
    """Return the scalar numeric entries of an info dictionary as floats."""
    return {key: float(value) for key, value in infos.items() if isinstance(value, SCALARS)}
