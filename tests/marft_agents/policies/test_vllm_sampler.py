"""Samplers against vLLM itself: `make test-vllm` runs them in the environment of `make vllm`, on a CPU.

The tests of `test_external_sampler` that hold for any engine are run again here. They fail where vLLM is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest

from baselines.cli.main import main
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.random_models import word_level
from marft_agents.policies.remote import RemoteError
from marft_agents.policies.sampler_error import SamplerError
from marft_agents.policies.server_sampler import ServerSampler
from marft_agents.policies.vllm_sampler import VllmSampler
from tests.marft_agents.policies.test_external_sampler import (  # noqa: F401  tests that are collected here too, with the fixtures of this module
    assert_sampled_from,
    make_team,
    plain_logprobs,
    requests,
    stir,
    test_a_refresh_takes_over_what_an_update_changed,
    test_adapters_that_an_update_left_alone_are_fine,
    test_one_batch_holds_all_agents,
    test_only_the_newest_adapters_stay_on_disk,
    test_tokens_and_logprobs_are_those_of_the_agents_own_adapter,
    test_top_k_comes_with_its_support,
    test_two_updates_of_learning,
    test_what_is_drawn_follows_the_turns_generator,
)

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

START_S = 400  # vLLM imports and starts on a busy machine in a minute or two
# One thread on any core: on a busy machine, threads that wait for each other make seconds of milliseconds.
QUIET = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
SMALL = ("--max-num-seqs", "32")


def processes(session):
    """Return the processes of a session that are still there."""
    shown = subprocess.run(["ps", "-s", str(session), "-o", "stat=,args="], capture_output=True, text=True, check=False)
    return [line for line in shown.stdout.splitlines() if not line.startswith("Z")]


class Server:
    """`marft vllm`: started, killed and started again on the same port.

    Attributes:
        url: What `--sampler` is given.
        folder: The base model.
    """

    def __init__(self, folder, *arguments, **environment):
        self.folder, self.arguments, self.environment = folder, arguments, environment
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "baselines.cli.main", "vllm", "--model", self.folder, "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "--", *SMALL, *self.arguments],
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert self.process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.5)

    def _answers(self):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200
        return False

    def sampling(self):
        """Return True while requests are being sampled."""
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60).read().decode()
        return any(float(count) for count in re.findall(r"^vllm:num_requests_running.* (\S+)$", page, re.MULTILINE))

    def kill(self):
        """End it all at once, as a machine without memory does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def left(self):
        """Wait until it has ended; return the processes that it left."""
        self.process.wait(timeout=120)
        deadline = time.monotonic() + 60
        while processes(self.process.pid) and time.monotonic() < deadline:
            time.sleep(0.2)
        return processes(self.process.pid)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Keep the logs of these servers apart from those of the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"MARFT_CACHE": str(folder), **QUIET}.items():
            patch.setenv(name, value)
        yield folder


def words_folder(folder, seed=0):
    """Save a random Llama whose heads fit vLLM's CPU kernels, and whose tokens are more than the canary's 20."""
    words = word_level(hidden=128, head_std=0.05)
    words.model(seed).save_pretrained(folder)
    words.tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return words_folder(tmp_path_factory.mktemp("words"))


SERVER, ENGINE, NOTHING = "server", "engine", "nothing"
CHUNKED = "--enable-chunked-prefill --max-num-batched-tokens 64"
NO_UPDATES = "VLLM_ALLOW_RUNTIME_LORA_UPDATING=False"
NO_LORA = "--no-enable-lora"
REAL = "--max-model-len 512"


@pytest.fixture(scope="module", params=[SERVER, ENGINE])
def running(request, model_folder):
    """A server, or an engine of this process; pytest has one at a time, as each takes 2 GB and a minute to start."""
    if request.param == ENGINE:
        made = []
        yield made
        for llm in made:
            llm.llm_engine.engine_core.shutdown()
        return
    if request.param == NOTHING:
        yield None
        return
    words = [] if request.param == SERVER else request.param.split()
    environment = dict(word.split("=") for word in words if not word.startswith("-") and "=" in word)
    arguments = [word for word in words if word not in environment and "=" not in word]
    server = Server("smollm2-135m" if request.param == REAL else model_folder, *arguments, **environment)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def make_sampler(running, tmp_path, monkeypatch):
    """Return (team) -> sampler on what is running, with its adapters in tmp_path/adapters."""

    def on_server(team):
        return ServerSampler(team, tmp_path / "adapters", running.url)

    def on_engine(team):
        import vllm

        start = vllm.LLM

        def shared(**arguments):
            if not running:
                running.append(start(**arguments, max_num_seqs=32))
            return running[0]

        with monkeypatch.context() as patch:
            patch.setattr(vllm, "LLM", shared)
            sampler = VllmSampler(team, tmp_path / "adapters")
        sampler._numbers = NUMBERS
        return sampler

    with contextlib.ExitStack() as stack:
        make = on_server if isinstance(running, Server) else on_engine
        yield lambda team: stack.enter_context(contextlib.closing(make(team)))


NUMBERS = itertools.count(1)  # an engine knows adapters by number, and this one outlives its samplers


# ---------------------------------------------------------------------- runs


def train(model_folder, sampler, out):
    place = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories", "--model", model_folder, "--device", "cpu"]
    size = ["--updates", "1", "--groups", "1", "--group-size", "2", "--max-new-tokens", "2"]
    return main(["train", *place, *size, "--sampler", sampler, "--out", str(out)])


@pytest.mark.parametrize("running", [NOTHING], indirect=True)
def test_engines_of_this_process_end_with_their_runs(running, model_folder, tmp_path):
    """Also one that does not start."""
    with pytest.raises(Exception, match="Engine core initialization failed"):
        VllmSampler(make_team(model_folder), tmp_path, kv_cache_memory_bytes=1)
    run = tmp_path / "run"
    assert train(model_folder, "vllm", run) == 0
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 1
    assert not [process for process in processes(os.getsid(0)) if "VLLM::" in process]


@pytest.mark.parametrize("running", [SERVER], indirect=True)
def test_a_server_that_is_killed_and_started_again(running, model_folder, capsys, tmp_path):
    """A batch fails with the reason, a resume is refused; then the new server has no adapters until a refresh."""
    run = tmp_path / "run"
    resume = ["train", "--resume", str(run), "--updates", "2", "--device", "cpu"]
    assert train(model_folder, running.url, run) == 0
    team = make_team(model_folder, SamplingParams(temperature=2.0, max_new_tokens=400))
    with contextlib.closing(ServerSampler(team, tmp_path, running.url, retries=1)) as sampler:
        sampler.refresh()
        errors = []

        def play():
            with pytest.raises(RemoteError) as caught:
                sampler.act(requests("actor_0", texts=["digit 1"] * 64))
            errors.append(str(caught.value))

        playing = threading.Thread(target=play)
        playing.start()
        try:
            while not running.sampling():
                assert playing.is_alive(), "the batch ended before the server was killed"
            running.kill()
            playing.join(timeout=60)
            assert main(resume) == 1
        finally:
            running.start()
        [in_batch], at_start = errors, capsys.readouterr().err
        assert "Connection" in in_batch
        assert f"--sampler {running.url}: wanted a server that lists its models, found APIConnectionError" in at_start
        assert all(f"vllm-{running.port}.log, last written" in error for error in (in_batch, at_start))

        sampler.team.sampling = SamplingParams(max_new_tokens=4)
        with pytest.raises(RemoteError, match=r"does not exist.*--resume"):
            sampler.act(requests("actor_0"))
        sampler.refresh()
        assert_sampled_from(team, "actor_0", sampler.act(requests("actor_0")))
    assert main(resume) == 0
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2


# ---------------------------------------------------------------------- servers that cannot be trained with


@pytest.mark.parametrize("running", [CHUNKED], indirect=True)
def test_the_user_reads_why_the_engine_died(running, model_folder, tmp_path):
    """vLLM's CPU worker fails at a prompt that has a seed and is prefilled in chunks, which `marft vllm` avoids."""
    team = make_team(model_folder, SamplingParams(max_new_tokens=2))
    with contextlib.closing(ServerSampler(team, tmp_path, running.url, retries=1)) as sampler:
        sampler.refresh()
        with pytest.raises(RemoteError, match="ends with the error: RuntimeError: CPU Generator does not use offset"):
            sampler.act(requests("actor_0", texts=["digit 1 " * 60]))
    assert running.left() == []


@pytest.mark.parametrize("running", [NO_UPDATES], indirect=True)
def test_a_server_without_runtime_updates_or_with_another_model(running, model_folder, capsys, tmp_path):
    assert train(model_folder, running.url, tmp_path / "run") == 1
    assert re.search("load_lora_adapter.*404.*VLLM_ALLOW_RUNTIME_LORA_UPDATING", capsys.readouterr().err)
    other = make_team(words_folder(tmp_path / "other", seed=1))
    with pytest.raises(SamplerError, match=r"serves another model than .*other"):
        ServerSampler(other, tmp_path, running.url)
    os.killpg(running.process.pid, signal.SIGINT)  # as Ctrl-C does
    assert running.left() == []


@pytest.mark.parametrize("running", [NO_LORA], indirect=True)
def test_a_server_without_lora(running, model_folder, capsys, tmp_path):
    assert train(model_folder, running.url, tmp_path / "run") == 1
    assert re.search("load_lora_adapter.*--enable-lora", capsys.readouterr().err)


# ---------------------------------------------------------------------- the real model


@pytest.mark.parametrize("running", [REAL], indirect=True)
def test_two_adapters_of_the_real_model(running, tmp_path):
    """SmolLM2-135M: log-probs adapter by adapter, before and after an update."""
    team = make_team("smollm2-135m", SamplingParams(max_new_tokens=8), noise=0.02)
    gaps = []
    with contextlib.closing(ServerSampler(team, tmp_path, running.url)) as sampler:
        for update in range(2):
            sampler.refresh()
            for agent in team.local_agents:
                actions = sampler.act(requests(agent, texts=["What is 17 + 25?", "Name a colour."]))
                gap = max(np.abs(a.logprobs - plain_logprobs(team, agent, a)).max() for a in actions)
                print(f"update {update}, {agent}: largest difference {gap:.2g} nats")
                gaps.append(gap)
            stir(team, "actor_0", 7 + update, 0.02)
    assert max(gaps) < 1e-4
