"""A trained team that plays questions of users.

The team plays its environment with problems without a reference: the questions. It plays as many rounds as in training.
Nothing is judged, so no episode ends early and no verdict is shown. Questions are played side by side: each has a
thread, and its turns join the running batch of the team.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from baselines.experiment.environments import factory
from baselines.experiment.experiment import Experiment
from marft_agents.generation.sampling import SamplingParams
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import encodable
from marft_agents.policies.running_batches import RunningBatches
from marft_agents.rollouts.rollout import collect
from marft_agents.setting_fields import check_knobs, knob
from marft_agents.trajectory import EpisodeStart, SampledTurn
from marft_envs.game.task import Outcome, Task, TaskList
from marft_envs.registration.recorded_game import surface_of

OF_A_QUESTION = ("team", "dependency", "horizon", "communication", "max_action_chars")  # keywords of training that hold


@dataclass(frozen=True)
class ServeLimits:
    """Limits of a server on size, time and concurrency."""

    max_body_bytes: int = knob(1_000_000, "longest body of a request, in bytes", lambda v: v >= 1, ">= 1")
    request_timeout: float = knob(
        300.0, "seconds in which a question must be answered; also those for sending a body", lambda v: v > 0, "> 0"
    )
    max_questions: int = knob(
        16, "questions that are played or wait at the same time; more are refused", lambda v: v >= 1, ">= 1"
    )

    def __post_init__(self) -> None:
        check_knobs(self)


class QuestionError(ValueError):
    """A question that the team cannot be asked; the message is for the client."""


class BusyError(RuntimeError):
    """As many questions as allowed are being played or wait."""


class EpisodeFailedError(RuntimeError):
    """The team could not finish the episode; names the cause."""


class QuestionTasks(TaskList):
    """Questions of users, without references: no answer is judged.

    Args:
        questions: Texts of the problems.
    """

    def __init__(self, questions: Sequence[str]) -> None:
        super().__init__("questions", [Task(str(i), text, "", "served") for i, text in enumerate(questions)])

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Return an outcome without reward, which ends the game in its last round."""
        return Outcome(0.0, terminated=last_round, success=False, invalid=answer is None)


@dataclass(frozen=True)
class Question:
    """A question with the sampling parameters of its answer.

    Attributes:
        text: The problem that the team gets.
        sampling: Sampling parameters of all agents.
        seed: Seed of the sampling.
    """

    text: str
    sampling: SamplingParams
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """The answering agent's last action, and the turns that led to it.

    Attributes:
        text: The answering agent's last action.
        stopped: False if the token limit cut the answer.
        transcript: Agent, round, text and number of tokens of every turn, in the order they were played.
        prompt_tokens: Tokens of all prompts.
        output_tokens: Tokens that the team sampled.
    """

    text: str
    stopped: bool
    transcript: Sequence[Mapping[str, Any]]
    prompt_tokens: int
    output_tokens: int


class ServedTeam:
    """A team that answers questions from several threads or coroutines.

    Args:
        name: Name of the team for clients.
        experiment: Experiment of its training.
        team: The trained team; nothing else may use it.
        limits: Limits on time and concurrency.
    """

    def __init__(
        self, name: str, experiment: Experiment, team: LanguageModelTeam, limits: ServeLimits | None = None
    ) -> None:
        self.name, self.experiment, self.team = name, experiment, team
        self.limits = limits or ServeLimits()
        env = question_environments(experiment, ["?"])()
        self.answering = frozenset(profile.name for profile in env.unwrapped.team.profiles if profile.answers)
        self._places = threading.Semaphore(self.limits.max_questions)
        self._players = ThreadPoolExecutor(self.limits.max_questions, "marft-question")
        self._batches = RunningBatches(team)

    @property
    def sampling(self) -> SamplingParams:
        """Sampling parameters of training, for questions that ask for no others."""
        return self.team.sampling

    async def ask(self, question: Question) -> Answer:
        """Return the team's answer.

        Raises:
            QuestionError: The question is empty or no text.
            BusyError: Too many questions are being played or wait.
            TimeoutError: There was no answer in time. A question that is being played ends before its place is free.
            EpisodeFailedError: The team could not finish the episode.
        """
        if not question.text.strip() or not encodable(question.text):
            raise QuestionError("wanted a question with text that UTF-8 can encode")
        if not self._places.acquire(blocking=False):
            raise BusyError(f"{self.limits.max_questions} questions are being played or wait; ask again later")
        future = self._players.submit(self._play, question)
        future.add_done_callback(lambda _: self._places.release())
        # The shield keeps a question that is being played from losing its place before it ends.
        wrapped = asyncio.wrap_future(future)
        try:
            return await asyncio.wait_for(asyncio.shield(wrapped), self.limits.request_timeout)
        except (TimeoutError, asyncio.CancelledError):
            wrapped.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody asks for it any more
            raise

    def close(self) -> None:
        """Stop after the questions that are being played."""
        self._players.shutdown()
        self._batches.close()
        self.team.close()

    def _play(self, question: Question) -> Answer:
        """Play a question; its turns are sampled in one batch with those of others."""
        try:
            with self._batches.joined(question.sampling) as policy:
                [trajectory] = collect(
                    question_environments(self.experiment, [question.text]),
                    policy,
                    [EpisodeStart(question.seed, 0, question.seed, {"index": 0})],
                    seed=0,
                    num_envs=1,
                    max_turns=self.experiment.schedule.max_turns,
                )
        except Exception as error:
            raise EpisodeFailedError(f"{type(error).__name__}: {error}") from error
        if trajectory.failure is not None:
            raise EpisodeFailedError(f"the episode failed: {trajectory.failure}")
        answers = [turn for turn in trajectory.turns if turn.agent in self.answering]
        if not answers:
            raise EpisodeFailedError("no answering agent acted in this episode")
        actions = [turn.action for turn in trajectory.turns]
        prompts = [action.reported.prompt if action.reported else len(action.prompt_ids) for action in actions]
        return Answer(
            answers[-1].action.text,
            answers[-1].action.stopped,
            [turn_record(turn) for turn in trajectory.turns],
            sum(prompts),
            trajectory.num_tokens,
        )


def turn_record(turn: SampledTurn) -> dict[str, Any]:
    """Return a turn of the transcript as JSON."""
    return {"agent": turn.agent, "round": turn.round, "text": turn.action.text, "tokens": turn.action.num_tokens}


def question_environments(experiment: Experiment, questions: Sequence[str]) -> Callable[[], Any]:
    """Return a function that makes environments like that of a training, with questions as their problems."""
    keywords = {key: value for key, value in experiment.keywords.items() if key in OF_A_QUESTION}
    return factory(experiment.env, {**keywords, "data": QuestionTasks(questions)})


def check_environment(experiment: Experiment, env: Any) -> None:
    """Refuse an environment in which a question makes no problem, before a model is loaded.

    Args:
        experiment: Experiment of the training.
        env: Environment of that training.

    Raises:
        QuestionError: The environment cannot be played with a question; says why.
    """
    check_surface(experiment, surface_of(env))


def check_surface(experiment: Experiment, surface: Mapping[str, Any] | None) -> None:
    """Refuse the environment of a training by what its run keeps of it, see `check_environment`.

    Args:
        experiment: Experiment of the training.
        surface: What its agents were told, see `surface_of`; None for an environment that is no Flex-MG.

    Raises:
        QuestionError: The environment cannot be played with a question; says why.
    """
    if surface is None:
        raise QuestionError(f"{experiment.env} cannot be served: it is no Flex-MG, so a question is no task of it")
    if not surface["answers"]:
        raise QuestionError(
            f"{experiment.env} cannot be served: its agents act on a world (tools, resources), which a question does "
            "not bring along; wanted an environment whose tasks are problems with an answer"
        )


def with_sampling(sampling: SamplingParams, **given: Any) -> SamplingParams:
    """Return sampling parameters with those that a client gave.

    Args:
        sampling: Sampling parameters of training.
        **given: `temperature`, `top_p` and `max_new_tokens`; None keeps that of training. A longer limit than in
            training is lowered to it.

    Raises:
        QuestionError: A value is out of range.
    """
    changed = {name: value for name, value in given.items() if value is not None}
    if "max_new_tokens" in changed:
        changed["max_new_tokens"] = min(changed["max_new_tokens"], sampling.max_new_tokens)
    try:
        return replace(sampling, **changed)
    except (ValueError, TypeError) as error:
        raise QuestionError(str(error)) from error
