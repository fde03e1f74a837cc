"""`marft vllm` becomes `vllm serve`, set up so that a team can be trained with it; bad input is refused before."""

import importlib.util
import os
import socket
import sys

import pytest
import torch

from baselines.cli import vllm
from baselines.cli.main import main
from marft_agents.policies.server_log import last_error, log_path
from marft_common.installation import pip_install
from tests.helpers.fakes import word_model

# In the place of vLLM: tells what it was started with, and fails.
STARTED = """
import os, sys
print(*sys.argv[1:], "updates:", os.environ["VLLM_ALLOW_RUNTIME_LORA_UPDATING"])
sys.exit("ValueError: no engine")
"""


def forked(arguments, shown, folder):
    """Run a command that replaces its process, in a fork: a new one would import torch anew.

    Args:
        arguments: of `marft`.
        shown: file that gets its output.
        folder: where it finds further packages.

    Returns:
        The exit code.
    """
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(shown, os.O_WRONLY | os.O_CREAT), 1)
            os.dup2(1, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            sys.path.insert(0, str(folder))
            importlib.invalidate_caches()
            os.environ["PYTHONPATH"] = str(folder)
            vllm.default_device = lambda: torch.device("cpu")
            main(arguments)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_vllm_is_started_with_and_where_it_logs(tmp_path, monkeypatch):
    monkeypatch.setenv("MARFT_CACHE", str(tmp_path / "cache"))
    package = tmp_path / "packages" / "vllm" / "entrypoints" / "cli"
    package.mkdir(parents=True)
    (package / "main.py").write_text(STARTED)
    words = word_model()
    words.model.save_pretrained(tmp_path / "words")
    words.tokenizer.save_pretrained(tmp_path / "words")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ["--model", str(tmp_path / "words"), "--port", str(port), "--rank", "9", "--", "--max-model-len", "99"]
    shown = tmp_path / "shown"
    assert forked(["vllm", *flags], shown, tmp_path / "packages") == 1, shown.read_text()
    announced, *printed = shown.read_text().splitlines()
    assert announced == f"for marft train --sampler http://127.0.0.1:{port}/v1; log: {log_path(port)}"
    assert log_path(port).read_text().splitlines() == printed
    [arguments, _] = printed
    assert arguments.split() == [
        *("serve", str(tmp_path / "words"), "--host", "127.0.0.1", "--port", str(port)),
        *("--enable-lora", "--max-loras", "2", "--max-lora-rank", "16"),
        *("--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"),
        *("--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "16384"),
        *("--kv-cache-memory-bytes", "1073741824"),
        *("--max-model-len", "99", "updates:", "True"),
    ]
    assert last_error(f"http://127.0.0.1:{port}/v1").endswith("ends with the error: ValueError: no engine")


def test_without_vllm(capsys):
    assert main(["vllm"]) == 1
    assert f"vLLM is not in this environment: {pip_install('vllm')} for a GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--port", "70000"], "--port 70000: bind(): port must be 0-65535.; give another one"),
        (["--model", "no-such-model"], "model 'no-such-model' is neither a folder"),
    ],
)
def test_bad_input_is_refused(flags, error, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert main(["vllm", *flags]) == 1
    assert error in capsys.readouterr().err


def test_a_port_that_is_taken(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["vllm", "--port", str(port)]) == 1
    assert f"--port {port}: Address already in use; give another one" in capsys.readouterr().err
