"""`marft view`: the report of live runs on this machine's own address."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from baselines.cli.terminal import say
from baselines.gateway.allowed_hosts import is_loopback
from baselines.report.server import Server, View

PORT = 8017


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft view`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a run, or a folder that holds several")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=PORT, help=f"0 takes a free one (default: {PORT})")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft view` until it is interrupted."""
    view, host = View(arguments.folder), arguments.host
    try:
        server = Server(view, host, arguments.port)
    except (OSError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ValueError(f"--host {host} --port {arguments.port}: {cause}; give another one") from error
    with server:
        if not is_loopback(host):
            say(f"--host {host}: everyone who reaches this machine can read {arguments.folder}")
        say(f"{arguments.folder}: {server.url} (Ctrl-C ends it)", flush=True)
        if arguments.open:
            webbrowser.open(server.url)
        server.serve_forever()
    return 0
