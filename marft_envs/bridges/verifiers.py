"""Bridge to the `verifiers` library (0.4): a game as a multi-agent environment, one role per open agent.

verifiers finds taskset, environment and harness by the name of a module that exports one of each:

    from marft_envs.bridges import to_verifiers

    Tasks, Game, Chat = to_verifiers("marft/math_duo-v0")
    __all__ = ["Tasks", "Game", "Chat"]

Every role starts as the policy under training or evaluation; `--env.actor_0.model` gives one another model. Agents
with a function in `partners` are not roles. The harness calls the model in this process and needs neither a container
nor `uv`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

from marft_envs.bridges.single_agent import GameFailedError, Make, Partners, chat, maker, news, unassigned_agents
from marft_envs.environment_capabilities import AnyAEC, listing_game
from marft_envs.rollout.game_status import Ended, ReportingGame, Waiting

REQUIREMENT = "verifiers>=0.4,<0.5"


def to_verifiers(
    env_id_or_make: Make, partners: Partners | None = None, **kwargs: Any
) -> tuple[type[Any], type[Any], type[Any]]:
    """Return a taskset, an environment and a harness; export all three from a module.

    The taskset holds each task of a Flex-MG once, and for another game an endless sequence of seeds. The team reward of
    a game is recorded on the trace of every role as `team`, and the numbers of its last info as metrics. A role that is
    stopped by its own limits ends the game, which then pays 0. If a model or the game fails, the episode is an
    error and nothing is recorded.

    Args:
        env_id_or_make: An id such as `marft/math_duo-v0`, or a function that makes an AEC environment.
        partners: Policies of agents that are not roles: functions of their observations.
        **kwargs: Keywords for the environment.

    Raises:
        ImportError: verifiers is not installed.
        AgentAssignmentError: A partner for an agent that does not exist.
    """
    try:
        import verifiers.v1 as vf
        from pydantic import create_model
    except ImportError as error:
        raise ImportError(f"packages of verifiers need: pip install '{REQUIREMENT}'") from error

    make_env, playing = maker(env_id_or_make, kwargs), dict(partners or {})
    example = make_env()
    roles = unassigned_agents(example, playing)

    class Data(vf.TaskData):  # type: ignore[misc]
        seed: int
        options: dict[str, Any]

    class Play(vf.Task[Data, vf.State, vf.TaskConfig]):  # type: ignore[misc]
        pass

    class Tasks(vf.Taskset[Play, vf.TasksetConfig]):  # type: ignore[misc]
        INFINITE = listing_game(example) is None

        def load(self) -> Iterator[Play]:
            game = listing_game(example)
            if game is None:
                for seed in itertools.count():
                    yield Play(Data(name=None, seed=seed, options={}), self.config.task)
            else:
                for index in range(len(game.tasks)):
                    data = Data(name=game.tasks[index].id, seed=index, options={"index": index})
                    yield Play(data, self.config.task)

    local = vf.AgentConfig(runtime=vf.SubprocessConfig())
    config: Any = create_model(  # type: ignore[call-overload]
        "Config", __base__=vf.EnvConfig, **dict.fromkeys(roles, (vf.AgentConfig, local))
    )

    class Game(vf.Env[config]):  # type: ignore[misc]
        async def run(self, task: Any, agents: Any) -> None:
            await _Table(make_env, playing, task, agents).play()

    return Tasks, Game, _chat_harness(vf)


class _Table:
    """One game, and the conversations of its roles."""

    def __init__(self, make_env: Callable[[], AnyAEC], partners: Partners, task: Any, agents: Any) -> None:
        self.game = ReportingGame(0, make_env())
        self.partners, self.task, self.agents = partners, task, agents
        self.talks: dict[str, Any] = {}
        self.known: dict[str, Any] = {}

    async def play(self) -> None:
        """Play the game to its end and record its reward; a step may wait for a judge, so it takes a thread."""
        data = self.task.data
        try:
            async with AsyncExitStack() as stack:
                turn = await asyncio.to_thread(self.game.begin, data.seed, data.options)
                while isinstance(turn, Waiting):
                    action = await self._action(turn, stack)
                    if action is None:
                        break
                    turn = await asyncio.to_thread(self.game.play, action)
        finally:
            self.game.close()
        if isinstance(turn, Ended) and turn.failure is not None:
            raise GameFailedError(turn.failure)
        for role, talk in self.talks.items():
            if talk.trace.errors:  # a model that could not be asked is no answer worth 0
                raise GameFailedError(f"{role}: {talk.trace.errors[-1].message}")
        paid, infos = (turn.rewards, turn.infos) if isinstance(turn, Ended) else ({}, {})
        for role, talk in self.talks.items():
            talk.trace.record_reward("team", paid.get(role, 0.0))
            for name, value in infos.get(role, {}).items():
                talk.trace.record_metric(name, float(value))

    async def _action(self, turn: Waiting, stack: AsyncExitStack) -> str | None:
        """Return the agent's action; None if its limits stop it."""
        role, messages = turn.agent, chat(turn.observation)
        if role in self.partners:
            return await asyncio.to_thread(self.partners[role], turn.observation)
        if role not in self.talks:
            told = messages[:1] if messages[0]["role"] == "system" else messages[:0]
            task = self.task.with_data(system_prompt=told[0]["content"] if told else None)
            self.talks[role] = await stack.enter_async_context(getattr(self.agents, role).interaction(task))
            self.known[role] = told
        segment = await self.talks[role].turn(news(self.known[role], messages))
        self.known[role] = messages
        return None if segment.terminated else str(segment.last_reply)


def _chat_harness(vf: Any) -> type[Any]:
    """Return a harness that asks the model once per turn, in this process."""
    from openai import APIStatusError, AsyncOpenAI
    from verifiers.v1.dialects.chat import message_to_wire

    class Chat(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
        APPENDS_SYSTEM_PROMPT = True
        SUPPORTS_RESUME = True
        EXECUTES_CODE = False
        NEEDS_CONTAINER = False

        async def launch(
            self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: Any
        ) -> Any:
            system, prompt = self.resolve_prompt(data)
            messages: list[Any] = [{"role": "system", "content": system}] if system else []
            messages += [message_to_wire(message) for message in prompt]
            async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
                try:
                    await client.chat.completions.create(model=ctx.model, messages=messages)
                except APIStatusError as error:  # a limit of the rollout refuses a turn in this way
                    return vf.ProgramResult(exit_code=1, stdout="", stderr=str(error))
            return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    return Chat
