"""Every example runs, with small settings, and prints what it promises."""

from __future__ import annotations

import json
import re
import runpy
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gymnasium
import pytest

from marft_agents import ALGORITHMS
from marft_envs.registration import registry
from tests.house.house_pages import ROOT

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))
SMALL = "--updates 1 --groups 2"


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run an example in a folder of its own; return what it printed."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.chdir(tmp_path)

    def play(name, arguments=""):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments.split()])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    yield play
    ALGORITHMS.pop("loo-tokens", None)


def test_random_team(run):
    printed = run("random_team", "--env marft/math_duo-v0 --episodes 2")
    assert printed.count("actor_0 reads") == 2
    assert re.search(r"^[0-2] of 2 solved$", printed, re.MULTILINE)


def test_own_task(run):
    printed = run("own_task")
    assert "hint: The word begins with t." in printed
    assert "reward in the second round: 0.5" in printed
    assert "all: True" in printed


def test_own_dependency(run):
    printed = run("own_dependency")
    assert "the editor sees algebra_0 and check_0" in printed
    assert "the editor sees check_0" in printed
    assert "the editor sees nobody" in printed


def test_own_reward(run):
    printed = run("own_reward")
    assert "team reward: 1.0" in printed
    assert [line.split()[-1] for line in printed.splitlines() if " pays " in line] == ["1.0", "0.1", "0.0"]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")  # of the library
def test_third_party_ppo(run):
    assert re.search(
        r"solved [01]\.\d\d of the episodes; chance is 0\.50", run("third_party_ppo", "--steps 64 --problems 2")
    )


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")  # of TRL
def test_trl_agent(run, tmp_path):
    from marft_agents.models.random_models import RANDOM_MODELS, byte_tokenizer
    from tests.marft_envs.bridges.with_trl import CALLS_TOOLS

    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CALLS_TOOLS.read_text(encoding="utf-8")
    tokenizer.save_pretrained(tmp_path / "model")
    RANDOM_MODELS["tiny"].model().save_pretrained(tmp_path / "model")
    printed = run("trl_agent", f"--model {tmp_path / 'model'} --steps 1 --group-size 2 --max-tokens 4 --cpu")
    assert "1 steps; mean team reward of the last: 0.00" in printed


def test_custom_algorithm(run, tmp_path):
    printed = run("custom_algorithm", f"{SMALL} --group-size 2 --out {tmp_path}/run")
    assert "level token, baseline leave_one_out, clip_high 0.28" in printed
    assert "update 1: success 0.00" in printed


def test_reinforce(run):
    printed = run("reinforce", "--updates 1 --episodes 4")
    assert re.search(r"^update 1: solved [01]\.\d\d$", printed, re.MULTILINE)
    assert re.search(r"^greedy on held-out problems: [01]\.\d\d; chance is 0\.33$", printed, re.MULTILINE)


@pytest.mark.probes
@pytest.mark.parametrize(("mute", "low", "high"), [("", 0.9, 1.0), ("--mute", 0.0, 0.5)])
def test_reinforce_learns_to_copy_and_not_without_messages(run, mute, low, high):
    printed = run("reinforce", f"--updates 120 {mute}")
    assert low <= float(re.search(r"held-out problems: (\S+);", printed)[1]) <= high


def test_mixed_team(run):
    assert "update 1: success 0.00, trained actor_0\n" in run("mixed_team", SMALL)


def test_gpu_recipe(run, tmp_path):
    small = f"{SMALL} --group-size 2 --max-new-tokens 4 --limit 3 --model tiny --data embedded:stories"
    printed = run("gpu_recipe", f"{small} --out {tmp_path}/runs")
    assert printed.count("$ marft ") == 4
    assert "B - A [95 % interval]" in printed


class StandIn(BaseHTTPRequestHandler):
    """An endpoint whose model always gives the same answer."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": r"\boxed{7}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "stand-in", "choices": [choice]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def test_evaluate_endpoint(run):
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            printed = run("evaluate_endpoint", f"--url http://127.0.0.1:{server.server_port}/v1 --model any --limit 3")
        finally:
            server.shutdown()
            thread.join()
    assert re.search(r"accuracy 0\.\d{3}, 95 % interval .*, 0 of 3 failed", printed)
    assert r"actor_0: \boxed{7}" in printed


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of the kernel's client
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name == "train_a_team.ipynb" else ()) for name in NOTEBOOKS],
)
def test_notebooks_run_and_are_stored_without_outputs(name, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    for cell in notebook.cells:
        cell.source = cell.source.replace('= "tiny", 3, 4', '= "tiny", 1, 1')  # updates and groups
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(cell.outputs for cell in notebook.cells if cell.cell_type == "code")


def test_each_example_has_a_test_a_row_and_says_what_one_learns():
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    tests = set(re.findall(r"^def test_(\w+)\(", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE))
    assert len(SCRIPTS) >= 10
    assert len(NOTEBOOKS) >= 2
    assert set(SCRIPTS) <= tests
    for name in [*(f"{script}.py" for script in SCRIPTS), *NOTEBOOKS]:
        assert f"| [{name}]({name}) |" in table
    for script in SCRIPTS:
        text = (EXAMPLES / f"{script}.py").read_text(encoding="utf-8")
        assert "you learn" in text.partition('"""\n\n')[0]
        assert "pip install" in text
        assert 20 <= len(text.splitlines()) <= 66
