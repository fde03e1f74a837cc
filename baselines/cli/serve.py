"""`marft serve`: a trained team as a model behind the OpenAI API, or as an A2A agent."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import socket
from pathlib import Path
from typing import Any

from baselines.cli.device_flag import add_device_flag, devices_of
from baselines.cli.environment_flags import TRAINED
from baselines.cli.settings_flags import add_knobs, read_knobs
from baselines.cli.terminal import say, say_loading
from baselines.cli.trust_flag import add_trust_flag
from baselines.experiment.config_trust import Uses
from baselines.experiment.environments import factory
from baselines.experiment.run_surface import read_surface
from baselines.experiment.trained_team import TeamSettings, experiment_of, run_of
from baselines.gateway.allowed_hosts import is_loopback
from baselines.serving.served_team import OF_A_QUESTION, ServedTeam, ServeLimits, check_surface, question_environments
from marft_agents.runs import checkpoint
from marft_common.installation import pip_install
from marft_envs.registration.recorded_game import surface_of


class ServeError(ValueError):
    """A server that cannot be started; says what to do."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft serve`."""
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="RUN",
        help=TRAINED,
    )
    protocol = parser.add_mutually_exclusive_group()
    protocol.add_argument(
        "--openai", action="store_true", help="speak the OpenAI API, at http://HOST:PORT/v1 (default)"
    )
    protocol.add_argument("--a2a", action="store_true", help="speak A2A, at http://HOST:PORT/")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0: any free port (default: %(default)s)")
    parser.add_argument(
        "--allow-remote-clients",
        action="store_true",
        help="allow a --host that other machines can reach; there are no keys: whoever reaches it may ask",
    )
    parser.add_argument("--url", help="of --a2a: URL that the agent card shows (default: http://HOST:PORT/)")
    parser.add_argument("--name", help="name of the model or agent (default: that of the run's folder)")
    add_device_flag(parser)
    add_knobs(parser, ServeLimits, title="limits")
    add_trust_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft serve` until it is interrupted."""
    try:
        from baselines.gateway.http import server_of
        from baselines.serving.openai_api import openai_app

        if arguments.a2a:
            from baselines.serving.a2a_api import a2a_app
    except ImportError as error:
        extra = "a2a,serve" if arguments.a2a else "serve"
        raise ServeError(f"marft serve: {error}; install what it needs: {pip_install(extra)}") from error
    if not is_loopback(arguments.host) and not arguments.allow_remote_clients:
        raise ServeError(
            f"--host {arguments.host} can be reached from other machines, and there are no keys: wanted 127.0.0.1, or "
            "--allow-remote-clients beside it"
        )
    limits = read_knobs(arguments, ServeLimits, {})
    with contextlib.closing(_listen(arguments.host, arguments.port)) as listening:
        url = f"http://{_in_url(arguments.host)}:{listening.getsockname()[1]}/"
        with contextlib.closing(load(arguments, limits)) as served:
            app: Any = a2a_app(served, arguments.url or url) if arguments.a2a else openai_app(served)
            server = server_of(app, limits, arguments.host)
            say(f"{served.name}: {url if arguments.a2a else f'{url}v1'}", flush=True)
            server.run(sockets=[listening])
    return 0


def load(arguments: argparse.Namespace, limits: ServeLimits) -> ServedTeam:
    """Load the team of a run; everything is refused before a model is loaded.

    Raises:
        QuestionError: The environment of the run cannot be played with a question.
        CheckpointError: There is no such checkpoint.
    """
    path = checkpoint.resolve(arguments.checkpoint)
    surface = read_surface(run_of(path))
    asked = [f"keywords.{name}" for name in OF_A_QUESTION if name != "team"]
    uses = Uses(only=("env", "models", *(asked if surface else ["keywords"])))
    experiment = experiment_of(path, uses, trust=arguments.trust_config)
    surface = surface or surface_of(factory(experiment.env, experiment.keywords)())
    check_surface(experiment, surface)
    if surface and surface["team"] is not None:
        experiment = dataclasses.replace(experiment, keywords={**experiment.keywords, "team": surface["team"]})
    env = question_environments(experiment, ["?"])()
    settings = TeamSettings.of_run(experiment, path)
    settings.check(env)
    say_loading(settings.models.values())
    name = arguments.name or run_of(path).resolve().name
    return ServedTeam(name, experiment, settings.load(env.possible_agents, devices_of(arguments.device)), limits)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, before any model is loaded."""
    if not 0 <= port <= 65535:  # some systems take such a number modulo 65536
        raise ServeError(f"--port {port}: cannot listen there: wanted 0 to 65535")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ServeError(f"--host {host} --port {port}: cannot listen there: {error}") from error


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
