"""One running game: what is read of a PettingZoo AEC environment, and how a game becomes a trajectory."""

from __future__ import annotations

import contextlib
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from marft_agents.policies.policy import Request, encodable
from marft_agents.trajectory import Action, Episode, IntArray, Trajectory, Turn

SCALARS = (int, float, np.number, np.bool_)
NO_TOKENS: IntArray = np.zeros(0, np.int32)
NOT_DETERMINISTIC = "a replay needs an environment that is deterministic given seed, options and actions"


class ObservationError(ValueError):
    """An observation that is no text; says what was found and what is wanted."""


class EndlessGameError(RuntimeError):
    """A game that did not end within its turns, or whose dead agents never leave."""


class ReplayError(RuntimeError):
    """A replay that went another way than its record; says where, and what was found against what was recorded."""


class LiveGame:
    """An episode being played; at most one of its methods may run at a time, in whatever thread.

    What the environment raises becomes the game's failure: a record with a cause, not a crash of the run.

    Args:
        env: the environment; nobody else uses it meanwhile.
        episode: what to play.
        encode: (agent, observation) -> prompt ids, to bootstrap a truncated episode and to compare what is seen in a
            replay with the recorded prompts; None does neither. Only `request` and `trajectory` call it.
        max_turns: a game that is not over after so many turns has failed; 0: no limit.

    Attributes:
        failure: why it can not be played on; None if it can.
        over: no action is awaited any more.
    """

    def __init__(
        self,
        env: Any,
        episode: Episode,
        encode: Callable[[str, str], IntArray] | None = None,
        max_turns: int = 0,
    ) -> None:
        self.env, self.episode, self.encode, self.max_turns = env, episode, encode, max_turns
        self.failure: str | None = None
        self.over = False
        self._turns: list[Turn] = []
        self._replayed: list[str] = []  # what was seen before each turn of the prefix, until it is compared
        self._acted: set[str] = set()
        self._round = 0
        self._truncated = False
        self._following = ("", "")  # after a truncation: the agent whose value is next, what it sees
        self._infos: Mapping[str, float] = {}

    def start(self) -> None:
        """Reset the environment."""
        options = self.episode.options
        with self._recorded("reset"):
            self.env.reset(seed=self.episode.seed, options=None if options is None else dict(options))
        self._pass_over_dead()

    def replay(self) -> None:
        """Play the actions that the episode prescribes, as they are."""
        for number, action in enumerate(self.episode.prefix):
            if self.over:
                self.failure = self.failure or f"replay: the game was over before turn {number}; {NOT_DETERMINISTIC}"
                return
            agent = self.env.agent_selection
            with self._recorded(f"observation of {agent}"):
                self._replayed.append(checked(self.env.observe(agent)))
                self.play(agent, action)

    def request(self, seed: int) -> Request | None:
        """Return the waiting turn; None if there is none, or the environment can not say what its agent sees.

        Args:
            seed: of the policies' randomness.
        """
        self._compare_replayed()
        if self.over:
            return None
        with self._recorded("end of the game"):
            self._check_length()
        if self.over:
            return None
        agent = self.env.agent_selection
        randomness = np.random.SeedSequence([seed, self.episode.number, len(self._turns)])
        with self._recorded(f"observation of {agent}"):
            return Request(agent, checked(self.env.observe(agent)), np.random.default_rng(randomness))
        return None

    def _check_length(self) -> None:
        if self.max_turns and len(self._turns) >= self.max_turns:
            raise EndlessGameError(
                f"{len(self._turns)} turns were played and the game is not over: let the environment truncate it, or "
                "raise max_turns (--max-turns; 0: no limit)"
            )

    def play(self, agent: str, action: Action) -> None:
        """Take the waiting turn; the game fails if the policy could not act."""
        env = self.env
        if action.failure is not None:
            self.failure, self.over = action.failure, True
            return
        self._round = self._round_of(agent)
        with self._recorded(f"step of {agent}"):
            env.step(action.text)
            reward = float(np.mean([float(r) for r in env.rewards.values()])) if env.rewards else 0.0
            self._turns.append(Turn(agent, action, reward, self._round))
            self._infos = numeric(env.infos.get(agent, {}))
            cut = [a for a in env.agents if env.truncations[a] and not env.terminations[a]]
            self._truncated = bool(cut)
            self._following = self._next_valued(cut)
        self._pass_over_dead()

    def trajectory(self) -> Trajectory:
        """Return the record."""
        final_agent, final_prompt = "", NO_TOKENS
        if self.encode is not None and self.failure is None and self._following[0]:
            with self._recorded("observation after the last round"):
                final_prompt = self.encode(*self._following)
                final_agent = self._following[0]
        return Trajectory(
            seed=self.episode.seed,
            group=self.episode.group,
            turns=tuple(self._turns),
            terminated=not self._truncated,
            truncated=self._truncated,
            final_agent=final_agent,
            final_prompt_ids=final_prompt,
            infos=self._infos,
            failure=self.failure,
            game=self._record(),
        )

    def _record(self) -> dict[str, Any] | None:
        """Return what the environment recorded of the game, with the tokens that it could not count."""
        if self.failure is not None or not (getattr(self.env, "metadata", None) or {}).get("records_episodes"):
            return None
        record: dict[str, Any] = self.env.unwrapped.episode().to_dict()
        for index, (written, turn) in enumerate(zip(record["turns"], self._turns, strict=True)):
            written["tokens"] = len(turn.action.token_ids) or None
            if turn.action.shortened:
                written["shortened"] = self._shortened_turns(index, written.get("visible", []))
        return record

    def _shortened_turns(self, index: int, visible: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
        """Return whose turns the agent of a turn read with tokens left out, and of which round.

        Args:
            index: of the turn.
            visible: (round, agent) of what it was allowed to see, oldest first. Messages and turns of one author are
                matched from the newest back, as a form of communication may show the newest only.
        """
        reader, found = self._turns[index], []
        for note in reader.action.shortened:
            if note.author == reader.agent:
                rounds = [turn.round for turn in self._turns[:index] if turn.agent == reader.agent]
            else:
                rounds = [number for number, agent in visible if agent == note.author]
            number = rounds[-1 - note.later] if note.later < len(rounds) else None
            found.append({"author": note.author, "round": number, "removed": note.removed})
        return found

    def _compare_replayed(self) -> None:
        """Fail the game if what was seen in its replay is not what the recorded actions answered."""
        seen, self._replayed = self._replayed, []
        for number, (turn, observation) in enumerate(zip(self._turns, seen, strict=False)):
            recorded = turn.action.prompt_ids
            if self.failure is not None or self.encode is None or not len(recorded):
                continue  # already lost, nothing to compare with, or played by who has no prompt
            with self._recorded(f"replay of turn {number}"):
                if not np.array_equal(self.encode(turn.agent, observation), recorded):
                    raise ReplayError(f"{turn.agent} sees another prompt than was recorded; {NOT_DETERMINISTIC}")

    @contextlib.contextmanager
    def _recorded(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            told = f"{doing}: {type(error).__name__}: {error}"
            self.failure = told.encode(errors="backslashreplace").decode()  # records are UTF-8
            self.over = True

    def _pass_over_dead(self) -> None:
        """Step dead agents out of the way, until a living agent must act or nobody is left."""
        env = self.env
        with self._recorded("who acts next"):
            last_steps = 0
            while not self.over and env.agents:
                agent = env.agent_selection
                if not (env.terminations[agent] or env.truncations[agent]):
                    return
                if last_steps == 10 * len(env.agents):  # one each should do; an environment may be slow about it
                    raise EndlessGameError(
                        f"agent {agent!r} is dead and stays in env.agents = {env.agents}: step(None) has to take it out"
                    )
                last_steps += 1
                with self._recorded(f"last step of {agent}"):
                    env.step(None)
        self.over = True

    def _next_valued(self, cut: Sequence[str]) -> tuple[str, str]:
        """Return who of the agents cut off by a truncation would act next, and its observation; "", "" if none.

        Only agents that play tokens have a value. The next round would be opened by who opened this one. What it sees
        is read at once, since an environment forgets its dead agents.
        """
        valued = [turn for turn in self._turns if turn.agent in cut and len(turn.action.token_ids)]
        opening = [turn for turn in valued if turn.round == self._round] or valued
        return (opening[0].agent, checked(self.env.observe(opening[0].agent))) if opening else ("", "")

    def _round_of(self, agent: str) -> int:
        """Return the round of this turn: what infos say, else a new one starts when an agent acts again."""
        told = self.env.infos.get(agent, {}).get("round")
        if isinstance(told, SCALARS):
            return int(told)
        if agent in self._acted:
            self._acted.clear()
            self._round += 1
        self._acted.add(agent)
        return self._round


def checked(observation: Any) -> str:
    """Return an observation that is text, whose chat form, if it has one, is well-formed.

    Raises:
        ObservationError: another one, which no tokenizer takes, or which would be taken for what it is not.
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
    """Keep the scalar numeric entries of an info dictionary."""
    return {key: float(value) for key, value in infos.items() if isinstance(value, SCALARS)}
