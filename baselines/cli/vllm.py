"""`marft vllm`: a vLLM server on this machine, set up for `marft train --sampler`.

This process becomes `vllm serve`, so signals and the exit code are the server's own. Its output also goes to a log, in
which `marft train` looks for the reason when the server fails.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from baselines.cli.terminal import say
from baselines.experiment.samplers import VLLM, check_sampler
from marft_agents.models.pretrained import context_length, default_device, load_config, resolve
from marft_agents.policies.server_log import log_path
from marft_agents.policies.vllm_sampler import cpu_arguments, lora_rank

HOST = "127.0.0.1"  # whoever reaches the server can have it load files
ENVIRONMENT = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_NO_USAGE_STATS": "1"}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft vllm`."""
    parser.add_argument("--model", default="smollm2-135m", help="base model of the team (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port of this machine (default: %(default)s)")
    parser.add_argument("--max-loras", type=int, default=2, help="adapters of the team (default: %(default)s)")
    parser.add_argument("--rank", type=int, default=8, help="LoRA rank, or a larger one (default: %(default)s)")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="after --: further arguments of `vllm serve`")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft vllm`: it does not return."""
    check_sampler(VLLM)
    _refuse_taken(arguments.port)
    serve = server_arguments(arguments.model, arguments.port, arguments.max_loras, arguments.rank)
    log = log_path(arguments.port)
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f"for marft train --sampler http://{HOST}:{arguments.port}/v1; log: {log}", flush=True)
    tee = subprocess.Popen(["tee", "-i", str(log)], stdin=subprocess.PIPE)  # -i: Ctrl-C ends the server, then tee
    assert tee.stdin is not None
    for stream in (sys.stdout, sys.stderr):
        os.dup2(tee.stdin.fileno(), stream.fileno())
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", *serve, *arguments.arguments]
    os.execve(sys.executable, command, ENVIRONMENT | os.environ)


def server_arguments(model: str, port: int, max_loras: int, rank: int) -> Sequence[str]:
    """Return the arguments of `vllm` for a server whose tokens and log-probs can be trained on.

    Raises:
        ModelError: No loadable model has this name.
    """
    settings: dict[str, Any] = {
        "enable_lora": True,
        "max_loras": max_loras,
        "max_lora_rank": lora_rank(rank),
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
    }
    if default_device().type == "cpu":
        settings |= {"dtype": "float32", **cpu_arguments(context_length(load_config(model)) or 0)}
    flags = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        flags += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return ["serve", resolve(model), "--host", HOST, "--port", str(port), *flags]


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            cause = getattr(error, "strerror", None) or error
            raise ValueError(f"--port {port}: {cause}; give another one") from error
