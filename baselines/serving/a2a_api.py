"""A served team as an A2A agent, by the server classes of `a2a-sdk`: agent card, SendMessage and SendStreamingMessage.

Each message is a question of its own. The reply is a message with the answer; its metadata hold the transcript.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from a2a.helpers.proto_helpers import get_message_text, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a.utils.errors import InternalError, InvalidParamsError, UnsupportedOperationError
from starlette.applications import Starlette

from baselines.serving.served_team import BusyError, EpisodeFailedError, Question, QuestionError, ServedTeam

PROTOCOL = "1.0"


class TeamExecutor(AgentExecutor):
    """Executor that has a served team play each message.

    Args:
        served: The team that plays the messages.
    """

    def __init__(self, served: ServedTeam) -> None:
        self.served = served

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Play the message of a request and reply with one message.

        Raises:
            InvalidParamsError: The message has parts that are no text, or no text.
            InternalError: The team is busy, was too slow, or its episode failed; says which.
        """
        message = context.message
        if message is None or not all(part.HasField("text") for part in message.parts):
            raise InvalidParamsError(message="wanted a message whose parts are all text")
        try:
            answer = await self.served.ask(Question(get_message_text(message, "\n\n"), self.served.sampling))
        except QuestionError as error:
            raise InvalidParamsError(message=str(error)) from error
        except TimeoutError as error:
            raise InternalError(message=f"no answer in {self.served.limits.request_timeout:g} s") from error
        except (BusyError, EpisodeFailedError) as error:
            raise InternalError(message=str(error)) from error
        reply = new_text_message(answer.text, context_id=context.context_id)
        reply.metadata.update({"transcript": [dict(turn) for turn in answer.transcript]})
        await event_queue.enqueue_event(reply)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Refuse: a question that is being played cannot be cancelled."""
        raise UnsupportedOperationError(message="a question that is being played cannot be cancelled")


def agent_card(served: ServedTeam, url: str) -> AgentCard:
    """Return the card of a served team.

    Args:
        served: The team that plays the messages.
        url: URL at which clients reach it.
    """
    env = served.experiment.env
    skill = AgentSkill(
        id="answer",
        name="Answer a question",
        description=f"A team of {len(served.team.agents)} language-model agents, trained in {env}, plays the question.",
        tags=["marft", env],
    )
    return AgentCard(
        name=served.name,
        description=f"Team {', '.join(served.team.agents)}, trained in {env}.",
        version=version("marft"),
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=PROTOCOL)],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )


def a2a_app(served: ServedTeam, url: str) -> Starlette:
    """Return the application that serves a team at a URL."""
    card = agent_card(served, url)
    handler: Any = DefaultRequestHandler(TeamExecutor(served), InMemoryTaskStore(), card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
