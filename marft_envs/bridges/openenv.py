"""An OpenEnv server (openenv-core 0.3) for one agent of a game: each session plays a game of its own.

    app = to_openenv("marft/math_duo-v0", "actor_0", {"reasoner_0": speak})
    uvicorn.run(app, port=8000)

A client steps it with `{"text": "..."}`. It sees `text`, `messages` (the chat form of the whole observation) and, at
the end, `infos`, which are numbers. OpenEnv's clients hold a WebSocket, which is a session. Its plain HTTP routes make
an environment for each request and so cannot play a game.
"""

from __future__ import annotations

import secrets
from typing import Any

from marft_envs.bridges.single_agent import Make, Partners, SingleAgentGame, chat, maker

REQUIREMENT = "openenv-core>=0.3,<0.4"


def to_openenv(
    env_id_or_make: Make, agent: str, partners: Partners | None = None, *, max_sessions: int = 64, **kwargs: Any
) -> Any:
    """Return a FastAPI application that serves one agent.

    Args:
        env_id_or_make: An id such as `marft/math_duo-v0`, or a function that makes an AEC environment.
        agent: Name of the agent that the client plays.
        partners: Policies of the other agents: functions of their observations, called from a thread per session.
        max_sessions: Most games at the same time.
        **kwargs: Keywords for the environment.

    Raises:
        ImportError: OpenEnv is not installed.
        AgentAssignmentError: No such agent, or another agent has no partner.
    """
    try:
        from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
    except ImportError as error:
        raise ImportError(f"a server of OpenEnv needs: pip install '{REQUIREMENT}'") from error

    class Utterance(Action):  # type: ignore[misc]
        text: str

    class Seen(Observation):  # type: ignore[misc]
        text: str
        messages: list[dict[str, str]]
        infos: dict[str, float]

    make_env = maker(env_id_or_make, kwargs)
    SingleAgentGame(make_env, agent, partners).close()  # report errors now, not to the first client

    class SingleAgentEnvironment(Environment[Utterance, Seen, State]):  # type: ignore[misc]
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._game = SingleAgentGame(make_env, agent, partners)
            self._state = State()

        def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Seen:
            """Start a game; the options are those of the environment's own reset, such as `task_id`."""
            self._state = State(episode_id=episode_id)
            return self._show(self._game.begin(secrets.randbits(32) if seed is None else seed, options))

        def step(self, action: Utterance, timeout_s: float | None = None, **kwargs: Any) -> Seen:
            """Take the agent's turn."""
            self._state.step_count += 1
            return self._show(self._game.play(action.text))

        def _show(self, observation: Any) -> Seen:
            over = observation is None
            return Seen(
                text="" if over else str(observation),
                messages=[] if over else [dict(message) for message in chat(observation)],
                infos={key: float(value) for key, value in self._game.infos.items()},
                done=over,
                reward=self._game.reward if over else None,
            )

        @property
        def state(self) -> State:
            """The episode and the turns taken so far."""
            return self._state

        def close(self) -> None:
            """Close the environment."""
            self._game.close()

    return create_fastapi_app(SingleAgentEnvironment, Utterance, Seen, max_concurrent_envs=max_sessions)
