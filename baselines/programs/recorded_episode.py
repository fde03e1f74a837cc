"""A running episode of a program: its requests, its limits, and the trajectory that is trained on."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from baselines.gateway.api_errors import ApiError
from baselines.programs.chat_messages import ToolCall, Tools
from baselines.programs.process import ProgramError, rewards_of
from baselines.programs.settings import ProgramSettings
from baselines.programs.what_was_read import ProgramTurn, bound_of, layers_of, reads_of
from marft_agents.rollouts.program_games import Asked
from marft_agents.trajectory import Action, EpisodeStart, SampledTurn, Trajectory


@dataclass(frozen=True)
class Wanted:
    """A request for an answer, of any API.

    Attributes:
        agent: Id of the agent.
        prompt: Messages of the request.
        tools: Tools that it may call.
        limit: Most tokens of the answer; None: as the run allows.
        stop: Texts that end the answer.
        sampling: Sampling parameters that the request names.
        named: Ids of answers and of tool calls that the request names.
    """

    agent: str
    prompt: Any
    tools: Tools
    limit: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Mapping[str, float] = field(default_factory=dict)
    named: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Given:
    """An answer.

    Attributes:
        id: Id of the answer.
        action: The answer as it was sampled.
        content: Its text without tool calls; None beside tool calls alone.
        calls: Its tool calls.
    """

    id: str
    action: Action
    content: str | None
    calls: Sequence[ToolCall]


class RecordedEpisode:
    """A running episode; used in one event loop.

    Args:
        place: Place among the episodes that are played.
        start: Start of the episode.
        task: Id of its task.
        agents: Agents of the team.
        settings: Limits of the episode.
        ask: Takes a request to the running batch, from any thread.

    Attributes:
        broken: Result: the cause that ends the episode from outside of its program.
        said: Sampled texts by the ids of their tool calls.
        chats: Messages of each answer of `/v1/responses` with the answer itself, by its id.
    """

    def __init__(
        self,
        place: int,
        start: EpisodeStart,
        task: str,
        agents: Sequence[str],
        settings: ProgramSettings,
        ask: Callable[[Asked], None],
    ) -> None:
        self.place, self.start, self.task, self.agents, self.settings, self.ask = (
            place,
            start,
            task,
            tuple(agents),
            settings,
            ask,
        )
        self.broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.said: dict[str, str] = {}
        self.chats: dict[str, list[dict[str, str]]] = {}
        self.reward: Mapping[str, Any] | None = None  # posted by the program
        self._clock = itertools.count()
        self._calls = dict.fromkeys(self.agents, 0)
        self._requests = self._tokens = 0
        self._open: set[asyncio.Future[Action]] = set()
        self._turns: list[ProgramTurn] = []
        self._lost: list[tuple[str, Action]] = []  # answers that nobody took
        self._over = False
        self._waited, self._waits_since = 0.0, 0.0

    async def answer(self, wanted: Wanted, gone: Callable[[], Any]) -> Given:
        """Return the answer of an agent.

        Args:
            wanted: Body of the request.
            gone: Returns a coroutine: True if the client has closed its connection.

        Raises:
            ApiError: The episode is over or exceeds a limit, or the request cannot be answered.
        """
        self._check()
        asked, call, loop = next(self._clock), self._calls[wanted.agent], asyncio.get_running_loop()
        self._calls[wanted.agent] += 1
        future: asyncio.Future[Action] = loop.create_future()
        if not self._open:
            self._waits_since = loop.time()
        self._open.add(future)

        def take(action: Action) -> None:
            loop.call_soon_threadsafe(_fulfil, future, action)

        sampling = wanted.sampling if self.settings.client_sampling == "strict" else {}
        agent = self.agents.index(wanted.agent)
        self.ask(Asked(self.place, agent, call, wanted.agent, wanted.prompt, wanted.limit, wanted.stop, sampling, take))
        try:
            action = await future
        finally:
            self._open.discard(future)
            if not self._open:
                self._waited += loop.time() - self._waits_since
        if action.failure is not None:
            code = "context_length_exceeded" if "tokens" in action.failure else None
            raise ApiError(400, "invalid_request_error", action.failure, code=code)
        self._count(action)
        if await gone():
            self._lost.append((wanted.agent, action))
            raise ApiError(499, "server_error", "the client is gone")
        content, calls = wanted.tools.split(action.text)
        given = Given(f"chatcmpl-{secrets.token_hex(12)}", action, content, calls)
        self.said |= {one.id: action.text for one in calls}
        ids = tuple(one.id for one in calls)
        self._turns.append(
            ProgramTurn(
                wanted.agent, wanted.prompt, action, content, asked, next(self._clock), given.id, ids, wanted.named
            )
        )
        return given

    def waited(self) -> float:
        """Return the seconds in which the program had requests open: those are not its own."""
        return self._waited + (asyncio.get_running_loop().time() - self._waits_since if self._open else 0.0)

    def _check(self) -> None:
        if self._over:
            raise over()
        if len(self._open) >= self.settings.program_open:
            message = f"{len(self._open)} requests of this episode are open (--program-open); ask again later"
            raise ApiError(429, "rate_limit_error", message, code="too_many_open")
        self._requests += 1
        if self._requests > self.settings.program_requests:
            raise self._break(f"more than {self.settings.program_requests} requests (--program-requests)")

    def _count(self, action: Action) -> None:
        self._tokens += len(action.prompt_ids) + action.num_tokens
        if self._tokens > self.settings.program_tokens:
            raise self._break(f"more than {self.settings.program_tokens} tokens (--program-tokens)")

    def _break(self, cause: str) -> ApiError:
        if not self.broken.done():
            self.broken.set_result(cause)
        return ApiError(403, "server_error", f"this episode has failed: {cause}", code="episode_failed")

    def close(self) -> None:
        """Answer no further requests; those that are open get an error."""
        self._over = True
        for future in self._open:
            if not future.done():
                future.set_exception(over())
        self.broken.cancel()

    def trajectory(self, report: Mapping[str, Any] | None, failure: str | None, seconds: float) -> Trajectory:
        """Return the record of the episode.

        Args:
            report: Report of the program; None if it failed.
            failure: Cause of the failure; None if it did not fail.
            seconds: Seconds that the episode took.
        """
        reward, rewards, infos = 0.0, None, dict[str, float]()
        if failure is None:
            assert report is not None
            try:
                told = report or self.reward or {}
                reward, rewards = rewards_of(told, self.agents)
                infos = {name: float(v) for name, v in told.items() if isinstance(v, int | float) and name != "reward"}
                if not self._turns:
                    raise ProgramError("it gave a reward and asked no agent")
            except ProgramError as error:
                failure = str(error)
        layers, last = layers_of(self._turns), len(self._turns) - 1
        turns = [
            SampledTurn(
                turn.agent,
                turn.action,
                reward if k == last else 0.0,
                layers[k],
                0,
                None if rewards is None or k < last else rewards,
            )
            for k, turn in enumerate(self._turns)
        ]
        if failure is not None:
            turns = [SampledTurn(turn.agent, turn.action, 0.0, turn.round, turn.layer) for turn in turns]
        return Trajectory(
            seed=self.start.seed,
            group=self.start.group,
            turns=tuple(turns),
            terminated=True,
            truncated=False,
            infos=infos,
            failure=None if failure is None else f"program: {failure}".encode(errors="backslashreplace").decode(),
            game=None if failure is not None else self._record(layers, reward),
            unplayed=tuple(SampledTurn(agent, action, 0.0) for agent, action in self._lost),
            step_seconds=seconds,
        )

    def _record(self, layers: Sequence[int], reward: float) -> dict[str, Any]:
        """Return the game as JSON: what each request held, and which answers it had read."""
        turns = []
        for k, (turn, bound, reads) in enumerate(
            zip(self._turns, bound_of(self._turns), reads_of(self._turns), strict=True)
        ):
            others = [read for read in reads if self._turns[read.turn].agent != turn.agent]
            turns.append(
                {
                    "agent": turn.agent,
                    "round": layers[k],
                    "layer": 0,
                    "visible": [[layers[read.turn], self._turns[read.turn].agent] for read in others],
                    "observation": str(turn.observation),
                    "action": turn.action.text,
                    "tokens": turn.action.num_tokens or None,
                    "asked": turn.asked,
                    "delivered": turn.delivered,
                    "delivered_before": bound,
                    "reads": [[read.turn, read.evidence] for read in reads],
                }
            )
        return {
            "kind": "program",
            "task_id": self.task,
            "turns": turns,
            "outcomes": [],
            "rewards": [reward],
            "terms": {},
        }


def _fulfil(future: asyncio.Future[Action], action: Action) -> None:
    if not future.done():
        future.set_result(action)


def over() -> ApiError:
    """Return the error of a request outside of an episode."""
    return ApiError(409, "invalid_request_error", "no episode of this process is running", code="episode_over")
