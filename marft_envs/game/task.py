"""Tasks (data), outcomes (data), and task sets with their sessions (behaviour).

A set of tasks is one class with `__len__`, `__getitem__`, `index` and `begin`, which starts the session of a game. The
game loop itself is written once, in `flex_mg.py`. It hands each finished round to its session and gets the outcome
back. A session may keep a world between rounds (tools, a database): it is plain data, copied with the game. Sets that
only judge answers write `judge` and inherit `begin` from `JudgedTasks`, most of them through `TaskList`.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from operator import index as as_index
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from marft_common.close_names import did_you_mean
from marft_envs.dependency.base import Dependency, Roster
from marft_envs.game.turn import Turn
from marft_envs.teams.team import Team


@dataclass(frozen=True)
class Task:
    """One problem.

    Attributes:
        id: Unique in its set.
        prompt: Text of the problem for the team.
        answer: The gold answer; never shown to an agent.
        split: "train", "test", ...
        meta: Level, subject, grade, origin and the like.
    """

    id: str
    prompt: str
    answer: str
    split: str
    meta: Mapping[str, str | int | float] = field(default_factory=dict)


Prompt = str | Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Outcome of one judged round.

    Attributes:
        reward: The task's own score of the round.
        terminated: Nothing can follow: solved, or judged for good.
        success: True if the task is solved.
        invalid: True if there was no readable answer.
        observation: Next text of the environment (o_{t+1}); always shown. Empty: nothing.
        detail: Explanation of the outcome, for the trace.
        verdict: Result of judging the answer; shown only with `feedback="verdict"`. Must not hold the gold answer.
        private: Next text of the environment by agent (results of its tools); always shown to that agent alone.
        events: Events of the round as JSON-like records (tool calls, ...); for the trace and the team reward.
    """

    reward: float
    terminated: bool
    success: bool
    invalid: bool
    observation: str = ""
    detail: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    verdict: str = ""
    private: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] = ()

    @property
    def phase(self) -> int:
        """Phase of the next round, from `detail`; 0 for tasks without phases."""
        return int(self.detail.get("phase", 0))


class Session(Protocol):
    """The task's side of one running game; can be deep-copied and pickled between rounds.

    A session may have these attributes, too. They are no members of the protocol, so that a session without them is
    one; the game reads them with `getattr`.

    | attribute | meaning | without it |
    |---|---|---|
    | `start` | an `Outcome` of which `observation` and `private` open the first round | the task's prompt opens it |
    | `announces_rounds` | True: each later round opens with its number | False: the session's own texts open it |
    | `inner` | the session that this one passes everything on to | it stands alone |
    | `secrets` | each `Secret` that one agent alone is told, and whether the task needs it told | nobody names any |

    A number `phase` in the `detail` of an outcome, or of `start`, is the phase of the next round: a dependency may go
    by it.
    """

    @property
    def opening(self) -> Mapping[str, str]:
        """Texts for the system prompts of single agents (their tools, their private resources)."""

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome | None:
        """Process the actions of a round and return the outcome.

        Args:
            turns: Turns of this round, in the order they were taken.
            round: Index of the round, from 0.
            last_round: The horizon ends the game after this round.

        Returns:
            The outcome; None if there was nothing to judge. A function of the session's state and these
            arguments alone.

        Raises:
            JudgeFailure: Our own infrastructure failed; nothing else.
        """


if TYPE_CHECKING:
    _ProtocolType = ABCMeta
else:
    _ProtocolType = type(Protocol)


class _TaskSetType(_ProtocolType):
    """Type of the protocol `TaskSet`: its methods are those of the name, and no members of the protocol."""

    def from_prompts(
        self, prompts: Iterable[Prompt], reward: Callable[[Any, str], float], **settings: Any
    ) -> RewardedPrompts:
        """Make tasks of prompts and a function that returns a reward, see `TaskList.from_prompts`."""
        return TaskList.from_prompts(prompts, reward, **settings)


@runtime_checkable
class TaskSet(Protocol, metaclass=_TaskSetType):
    """An immutable, indexed set of tasks; games share it, also between threads.

    `TaskSet.from_prompts(prompts, reward)` makes one, see `TaskList.from_prompts`.
    """

    @property
    def name(self) -> str:
        """Short name, e.g. "math"."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Task: ...

    def index(self, task_id: str, /) -> int:
        """Return the index of a task; raises `KeyError` (best `UnknownTaskError`) for an unknown id."""

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> Session:
        """Start the session of one game; all its randomness comes from the generator."""


WorldSet = TaskSet  # its name while sets that only judge were another protocol


@runtime_checkable
class JudgingTasks(Protocol):
    """A set of tasks that only judges answers; `JudgedTasks` makes it a `TaskSet`."""

    @property
    def name(self) -> str:
        """Short name, e.g. "math"."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Task: ...

    def index(self, task_id: str, /) -> int:
        """Return the index of a task; raises `KeyError` (best `UnknownTaskError`) for an unknown id."""

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Judge a round.

        Args:
            task: The task being played.
            answer: The last answering agent's whole action; None if no answering agent acted.
            round: Index of the round, from 0.
            last_round: The horizon ends the game after this round.

        Returns:
            The outcome. A pure function of its arguments, for any answer.

        Raises:
            JudgeFailure: Our own infrastructure failed; nothing else.
        """


Tasks = TaskSet | JudgingTasks


@runtime_checkable
class DescribedTasks(Protocol):
    """A set of tasks with settings of its own, which belong to the record of a game."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings as data."""


@runtime_checkable
class SlowTasks(Protocol):
    """A set of tasks that says whether its `judge` may wait, so that steps are taken in the background."""

    @property
    def slow_step(self) -> bool:
        """True if a step may take longer than a turn of the model."""


@runtime_checkable
class RewardedTasks(Protocol):
    """A set of tasks that says how its games pay where nobody else says it."""

    @property
    def default_reward(self) -> str:
        """Name of a reward."""


@runtime_checkable
class LongTasks(Protocol):
    """A set of tasks whose games need a number of rounds."""

    @property
    def rounds(self) -> int:
        """Rounds that a game needs at least."""


@runtime_checkable
class TeamBound(Protocol):
    """A set of tasks that must know its team before it is played, e.g. to give each agent its tools."""

    def for_team(self, team: Team, dependency: Dependency | None = None) -> Any:
        """Return the same tasks for a team, and the dependency of the game; None is the team's own."""


@runtime_checkable
class VotingTasks(Protocol):
    """A set of tasks whose episodes can vote: the majority of several samples is one more answer.

    The arm `vote@tokens` of `marft bench` needs it.
    """

    def vote(self, outcomes: Sequence[Outcome | None]) -> object | None:
        """Return what an episode votes for: its answer, verdict or final state.

        Args:
            outcomes: Outcomes of the episode's rounds; None for a round that was not judged.

        Returns:
            Votes that are equal (`==`) are for one choice, and need no hash. None: an abstention.
        """


def last_outcome(outcomes: Sequence[Outcome | None]) -> Outcome | None:
    """Return the outcome of the last judged round; None if none was judged."""
    return next((outcome for outcome in reversed(outcomes) if outcome is not None), None)


@dataclass
class JudgedSession:
    """The session of a set of tasks that only judges answers, without state."""

    tasks: JudgingTasks
    task: Task
    answering: frozenset[str]
    opening: Mapping[str, str] = field(default_factory=dict)
    announces_rounds: ClassVar[bool] = True

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome | None:
        """Judge the last answering agent's action; a round without one is judged only if it is the last."""
        answers = [turn.action for turn in turns if turn.agent in self.answering]
        # Nobody has answered yet, and somebody may in a later round. After the last round it counts as no answer.
        if not answers and not last_round:
            return None
        outcome = self.tasks.judge(self.task, answers[-1] if answers else None, round=round, last_round=last_round)
        if not isinstance(outcome, Outcome):
            raise TypeError(
                f"task set {self.tasks.name!r}: judge returned {outcome!r} for task {self.task.id!r}, "
                "wanted an Outcome(reward, terminated, success, invalid)"
            )
        return outcome


class InnerSession:
    """Base of sessions that open a game as another session does.

    Attributes:
        inner: Session that opens the game.
    """

    inner: Session

    @property
    def opening(self) -> Mapping[str, str]:
        """Texts for the system prompts of single agents."""
        return self.inner.opening

    @property
    def start(self) -> Outcome | None:
        """Start of the inner session, if it has one."""
        return getattr(self.inner, "start", None)

    @property
    def announces_rounds(self) -> bool:
        """True if the inner session announces rounds."""
        return getattr(self.inner, "announces_rounds", False)


@dataclass
class RecordedSession(InnerSession):
    """A session that gives the outcomes of a record: nothing is judged, and no tool is called.

    Attributes:
        inner: Session that opens the game; it is never advanced.
        outcomes: Recorded outcome of each round.
    """

    inner: Session
    outcomes: Sequence[Outcome | None]

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome | None:
        """Return the recorded outcome of the round."""
        return self.outcomes[round]


class JudgedTasks:
    """Default `begin` of sets that only judge answers: subclasses write `judge`."""

    def begin(self: JudgingTasks, task: Task, roster: Roster, generator: np.random.Generator) -> Session:
        """Start a session without state, which judges the last answer of each round."""
        return JudgedSession(self, task, roster.answering)


def places_of(name: str, ids: Iterable[str], kind: str = "tasks") -> dict[str, int]:
    """Return the place of each id in a task set.

    Args:
        name: Short name of the set, for the error.
        ids: The ids, in the order of the set.
        kind: What has the ids, for the error.

    Raises:
        ValueError: Two have the same id.
    """
    places: dict[str, int] = {}
    for place, id in enumerate(ids):
        if places.setdefault(id, place) != place:
            raise ValueError(f"task set {name!r}: two {kind} have the id {id!r}; ids must be unique")
    return places


class TaskList(JudgedTasks):
    """A `TaskSet` held in memory; subclasses add `judge`.

    Args:
        name: Short name of the set.
        tasks: Tasks with unique ids.

    Raises:
        ValueError: Two tasks have the same id.
    """

    def __init__(self, name: str, tasks: Iterable[Task]) -> None:
        self.name = name
        self._tasks = tuple(tasks)
        self._places = places_of(name, (task.id for task in self._tasks))

    def __len__(self) -> int:
        return len(self._tasks)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it never changes, and copies of a game share it

    def __getitem__(self, index: int, /) -> Task:
        return self._tasks[index]

    def index(self, task_id: str, /) -> int:
        """Return the index of a task.

        Raises:
            UnknownTaskError: No such id.
        """
        try:
            return self._places[task_id]
        except (KeyError, TypeError) as error:
            raise UnknownTaskError(task_id, self._places, self.name) from error

    @staticmethod
    def from_prompts(
        prompts: Iterable[Prompt],
        reward: Callable[[Any, str], float],
        *,
        name: str = "prompts",
        split: str = "train",
        solved_at: float = 1.0,
    ) -> RewardedPrompts:
        """Make tasks of prompts and a function that returns a reward.

        Args:
            prompts: Texts; or rows with the text under "prompt" and anything that the function needs beside it.
            reward: Pure function: `reward(prompt, answer)` returns a finite number; `prompt` is the text or row as it
                was given. A game without an answer has reward 0.
            name: Short name of the set.
            split: Split of all tasks.
            solved_at: Reward from which a task counts as solved.

        Raises:
            ValueError: There are no prompts, a row has no text under "prompt", or the function takes other arguments.
        """
        return RewardedPrompts(name, prompts, reward, split=split, solved_at=solved_at)


class RewardedPrompts(TaskList):
    """Prompts whose answers a function rewards; made by `TaskList.from_prompts`, which describes the arguments."""

    default_reward = "outcome"  # the game pays the function's value, not 1 for success

    def __init__(
        self,
        name: str,
        prompts: Iterable[Prompt],
        reward: Callable[[Any, str], float],
        *,
        split: str = "train",
        solved_at: float = 1.0,
    ) -> None:
        if isinstance(prompts, str | Mapping):
            raise ValueError(f"task set {name!r}: found prompts = {prompts!r}, wanted a list of texts or rows")
        try:
            with contextlib.suppress(ValueError):  # some functions written in C have no signature
                inspect.signature(reward).bind("", "")
        except TypeError as error:
            raise ValueError(f"task set {name!r}: reward: {error}; wanted a function reward(prompt, answer)") from error
        self._given = {f"{split}-{place}": prompt for place, prompt in enumerate(prompts)}
        self._reward, self._solved_at = reward, solved_at
        if not self._given:
            raise ValueError(f"task set {name!r}: found no prompts, wanted at least one")
        tasks = []
        for id, given in self._given.items():
            text = given.get("prompt") if isinstance(given, Mapping) else given
            if not isinstance(text, str):
                raise ValueError(
                    f"task set {name!r}: {id} is {given!r}, wanted a text, or a row with a text as 'prompt'"
                )
            tasks.append(Task(id, text, "", split))
        super().__init__(name, tasks)

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Reward an answer.

        Raises:
            TypeError: The function returned something else than one finite number.
        """
        reward = 0.0 if answer is None else self._reward(self._given[task.id], answer)
        # An array of one number per answer is a common mistake: functions of other libraries judge batches.
        if not isinstance(reward, Real) or not math.isfinite(reward):
            raise TypeError(
                f"task set {self.name!r}: the reward of task {task.id!r} is {reward!r}, wanted one finite number: "
                "reward(prompt, answer) judges one answer"
            )
        solved = answer is not None and reward >= self._solved_at
        # A game of one round is judged for good. In a longer one an answer may be improved until the horizon.
        return Outcome(float(reward), solved or (round == 0 and last_round), solved, answer is None)


class JudgeFailure(RuntimeError):  # noqa: N818 - the judge failed, the answer is not in error
    """Our infrastructure failed, so the answer is ungraded: exclude the episode; its reward is not 0."""


class UnknownTaskError(KeyError):
    """No task of that id; the message names the close ones."""

    def __init__(self, task_id: object, known: Iterable[str], where: str) -> None:
        ids = list(known)
        hint = did_you_mean(str(task_id), ids) or f"; ids look like {ids[:3]}"
        # Kept, since a `KeyError` would show its argument in quotes.
        self.message = f"{where}: no task has the id {task_id!r}{hint}"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


def is_slow(tasks: Tasks) -> bool:
    """Return True if a step may take longer than a turn of the model; see `SlowTasks`."""
    return isinstance(tasks, SlowTasks) and bool(tasks.slow_step)


def least_rounds(tasks: Tasks) -> int:
    """Return the rounds that a game needs at least: 1, unless the tasks are `LongTasks`."""
    return tasks.rounds if isinstance(tasks, LongTasks) else 1


def default_reward(tasks: Tasks) -> str:
    """Return the reward of games for which nobody names one: "success", unless the tasks are `RewardedTasks`."""
    return tasks.default_reward if isinstance(tasks, RewardedTasks) else "success"


def own_settings(tasks: Tasks) -> Mapping[str, Any]:
    """Return the settings of the tasks as data; none, unless they are `DescribedTasks`."""
    return tasks.settings if isinstance(tasks, DescribedTasks) else {}


def session_starter(tasks: Tasks) -> Callable[[Task, Roster, np.random.Generator], Session]:
    """Return the `begin` of a set of tasks; the default one for a set that only has `judge`."""
    return tasks.begin if isinstance(tasks, TaskSet) else partial(JudgedTasks.begin, tasks)


def choose_task(tasks: Tasks, options: Mapping[str, Any], generator: np.random.Generator, where: str) -> int:
    """Return the index of the task of a game.

    Args:
        tasks: Set of tasks.
        options: Options of a reset: "task_id" (takes precedence) or "index" selects the task.
        generator: Draws the task where the options select none.
        where: Name of the environment, for messages.

    Raises:
        UnknownTaskError: No task of that id; the message names close ones.
        IndexError: No task at that place.
        TypeError: The index is no whole number.
    """
    count = len(tasks)
    if (task_id := options.get("task_id")) is not None:
        try:
            return tasks.index(task_id)
        except KeyError as error:
            ids = (tasks[place].id for place in range(count))
            raise UnknownTaskError(task_id, ids, where) from error
    if (place := options.get("index")) is None:
        return int(generator.integers(count))
    try:
        place = as_index(place)
    except TypeError as error:
        raise TypeError(f"{where}: the index {place!r} is no whole number") from error
    if not 0 <= place < count:
        raise IndexError(f"{where}: no task at index {place}; there are 0 to {count - 1}")
    return place
