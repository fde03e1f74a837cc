"""tau2's user simulator by endpoint: a model behind a URL plays the customer beside an agent of ours."""

from __future__ import annotations

import json

from baselines.cli.main import main
from marft_envs.plugins.tau2.files import INSTALL
from tests.helpers.endpoint import completion, serving
from tests.helpers.needed_package import needed_package

needed_package("tau2", INSTALL)

FLAGS = ["--env", "marft/tau2_telecom_duo-v0", "--horizon", "4", "--limit", "1", "--max-new-tokens", "4"]
SHORT = ["--env-arg", 'policy="none"', "--env-arg", 'listing="signature"', "--device", "cpu"]


def test_an_endpoint_plays_the_customer_with_the_guidelines_of_tau2(tmp_path):
    call = '<tool_call>{"name": "check_status_bar", "arguments": {}}</tool_call>'
    with serving() as server:
        server.script = [(200, completion(said)) for said in ("My phone is dead.", call, "###STOP###")]
        models = ["--model", "tiny", "--model", f"user_0=endpoint:{server.url}#echo"]
        assert main(["eval", *FLAGS, *SHORT, *models, "--out", str(tmp_path)]) == 0
        asked = server.asked
    system = asked[0]["messages"][0]["content"]
    assert "User Simulation Guidelines" in system
    assert "<scenario>" in system
    assert "check_status_bar" in system
    assert "Result of check_status_bar" in asked[2]["messages"][-1]["content"]
    evaluation = json.loads((tmp_path / "evaluation.json").read_text())
    assert evaluation["failures"] == 0
    assert evaluation["tools"]["agents"]["user_0"]["calls"] == 1
