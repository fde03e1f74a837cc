"""KL divergence of the policies of two teams: against a plain pass, and from train to compare."""

from __future__ import annotations

import json

import pytest
import torch

from baselines.cli.main import main
from baselines.results.policy_divergence import _kl
from marft_agents.learning.supervised import demonstration
from tests.helpers.fakes import word_team


def plain_kl(a, b, action):
    """Return the divergence at each token by one whole pass of each model."""
    ids = torch.as_tensor([*action.prompt_ids, *action.token_ids], dtype=torch.long)[None]
    laws = []
    for each in (a, b):
        with torch.no_grad(), each.base.active_adapter(each.adapter):
            logits = each.base.peft(input_ids=ids).logits[0, len(action.prompt_ids) - 1 : -1]
        laws.append(logits.double().softmax(-1))
    return (laws[0] * (laws[0] / laws[1]).log()).sum(-1)


def test_it_is_the_divergence_of_whole_distributions_at_each_token():
    before, after = word_team(["x_0"]), word_team(["x_0"], stir=0.3)
    actions = [demonstration(before, "x_0", text, "1 2") for text in ("digit 1", "digit 2 ?")]
    ends = before.local_agents["x_0"], after.local_agents["x_0"]
    found = torch.tensor(list(_kl(*ends, actions)), dtype=torch.float64)
    wanted = torch.cat([plain_kl(*ends, action) for action in actions])
    assert len(found) == sum(len(action.token_ids) for action in actions)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)
    assert found.min() > 1e-4
    assert max(_kl(ends[0], ends[0], actions)) == 0.0


@pytest.mark.long
def test_a_trained_team_has_moved_and_an_untrained_one_has_not(tmp_path, capsys):
    env = ["--env", "baselines.probes.digit_games:probe/copy_duo-v0", "--max-new-tokens", "1", "--temperature", "1"]
    small = [
        "--groups",
        "32",
        "--group-size",
        "1",
        "--centring",
        "batch",
        "--num-envs",
        "32",
        "--policy-lr",
        "0.01",
        "--updates",
        "2",
    ]
    run = tmp_path / "run"
    evaluate = ["eval", *env, "--limit", "8"]
    assert main([*evaluate, "--model", "tiny-words", "--out", str(tmp_path / "before")]) == 0
    assert main(["train", *env, *small, "--model", "tiny-words", "--out", str(run)]) == 0
    assert main([*evaluate, "--checkpoint", str(run), "--out", str(run / "after")]) == 0
    found = {}
    for name, b in (("same", tmp_path / "before"), ("trained", run / "after")):
        file = tmp_path / f"{name}.json"
        assert main(["compare", str(tmp_path / "before"), str(b), "--by", "agent", "--json", str(file)]) == 0
        found[name] = json.loads(file.read_text())["by_agent"]["kl"]
    assert "KL a token" in capsys.readouterr().out
    for agent in ("agent_0", "agent_1"):
        assert found["same"][agent]["mean"] == pytest.approx(0.0, abs=1e-6)
        assert found["trained"][agent]["mean"] > 1e-3
        assert found["trained"][agent]["low"] <= found["trained"][agent]["mean"] <= found["trained"][agent]["high"]
        assert 0 < found["trained"][agent]["scenarios"] <= 8, "cut actions without text are left out"
