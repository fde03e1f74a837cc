"""Which engine plays is a part of the run: it is recorded, and a resumed run goes on with it."""

import json
import threading

import pytest

from baselines.cli.main import main
from tests.helpers import fake_vllm
from tests.helpers.fakes import word_model


@pytest.fixture
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    words = word_model(spread=0.3)
    words.model.save_pretrained(folder)
    words.tokenizer.save_pretrained(folder)
    with fake_vllm.Server(str(folder)) as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield started
        started.shutdown()
        thread.join()


def train(server, out):
    place = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories", "--model", server.folder, "--device", "cpu"]
    size = ["--updates", "1", "--groups", "1", "--group-size", "2", "--max-new-tokens", "2"]
    return main(["train", *place, *size, "--sampler", server.url, "--out", str(out)])


def test_a_resumed_run_plays_with_its_own_sampler(server, tmp_path):
    run = tmp_path / "run"
    assert train(server, run) == 0
    config = json.loads((run / "config.json").read_text())
    assert config["sampler"] == server.url
    asked = len(server.asked)
    for left_by_a_kill in (".adapter-ez5wyg4l", "actor_0-0123abcd-7"):
        (run / "adapters" / left_by_a_kill).mkdir()
    assert main(["train", "--resume", str(run), "--updates", "2", "--device", "cpu"]) == 0
    assert len(server.asked) >= asked + 2 * 2
    assert list((run / "adapters").iterdir()) == []
    asked = len(server.asked)
    del config["sampler"]  # a run of before that was known: the team's own generation
    (run / "config.json").write_text(json.dumps(config))
    assert main(["train", "--resume", str(run), "--updates", "3", "--device", "cpu", "--trust-config"]) == 0
    assert len(server.asked) == asked


def test_a_server_that_can_not_be_learned_from_leaves_no_folder(capsys, server, tmp_path):
    server.engine.raw_logprobs = True
    assert train(server, tmp_path / "run") == 1
    assert "processed_logprobs" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
