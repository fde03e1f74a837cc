"""Agents that are not trained: frozen local models and remote endpoints beside agents that learn."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.batch import build_batch
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.model_error import ModelError
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.partners import (
    AgentModel,
    RemoteSettings,
    agent_model,
    check_partners,
    models_of,
    open_partner,
    split_item,
)
from marft_agents.policies.policy import Request
from marft_agents.policies.remote import RemoteError
from marft_agents.policies.team_building import build_team
from marft_agents.rollouts.rollout import EpisodeStart, collect
from marft_agents.runs import checkpoint
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from tests.helpers.endpoint import serving
from tests.helpers.fakes import CopyDigit, Market, word_team
from tests.helpers.naive import adapters, moved

SAMPLING = SamplingParams(max_new_tokens=2)
NOBODY = "http://127.0.0.1:9/v1"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@pytest.fixture
def endpoint():
    with serving() as server:
        yield server


def beside(url, **settings):
    """Return a team whose speaker is remote and whose actor learns."""
    local = word_team(["actor_0"])
    partner = open_partner(AgentModel("endpoint", url, "echo"), SAMPLING, RemoteSettings(remote_retries=0, **settings))
    return LanguageModelTeam(
        local.local_agents, SAMPLING, partners={"speaker_0": partner}, agents=["speaker_0", "actor_0"]
    )


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("smollm2-135m", AgentModel("", "smollm2-135m")),
        ("frozen:tiny", AgentModel("frozen", "tiny")),
        ("endpoint:http://host:8000/v1#a/b", AgentModel("endpoint", "http://host:8000/v1", "a/b")),
        ("a2a:https://host", AgentModel("a2a", "https://host")),
        ("C:\\models\\tiny", AgentModel("", "C:\\models\\tiny")),
    ],
)
def test_the_name_of_a_model_tells_its_kind(text, model):
    assert agent_model(text) == model
    assert str(model) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("frozen:", "frozen:MODEL"),
        ("endpoint:http://host/v1", "endpoint:URL#NAME"),
        ("endpoint:host:8000#name", "endpoint:URL#NAME"),
        ("a2a:localhost:9999", "a2a:URL"),
        ("a2a:http://host#name", "a2a:URL"),
    ],
)
def test_a_malformed_name_says_what_is_wanted(text, wanted):
    with pytest.raises(ValueError, match=f"model '{text}': wanted {wanted}"):
        agent_model(text)


def test_the_agent_stands_before_the_first_equals_sign():
    assert split_item("actor_0=endpoint:http://h/v1?a=b#n") == ("actor_0", "endpoint:http://h/v1?a=b#n")
    assert split_item("endpoint:http://h/v1?a=b#n") == ("*", "endpoint:http://h/v1?a=b#n")
    assert split_item("a=b") == ("a", "b")


def test_an_unknown_agent_is_named_with_a_close_one():
    with pytest.raises(ModelError, match=r"no agent is called 'verifer_0'; .*did you mean verifier_0 for"):
        models_of(["actor_0", "verifier_0"], {"*": "tiny", "verifer_0": "frozen:tiny"})


# ------------------------------------------------------------------ frozen models


def test_a_frozen_agent_shares_the_base_and_has_no_adapter():
    models = {"*": "tiny", "verifier_0": "frozen:tiny"}
    team = build_team(["actor_0", "verifier_0"], models, lora=LoraSettings(), sampling=SAMPLING)
    assert len(team.bases) == 1
    assert team.policies == {"actor_0": ["actor_0"]}
    assert team.local_agents["verifier_0"].adapter is None
    shared = build_team(["actor_0", "verifier_0"], models, lora=LoraSettings(), sampling=SAMPLING, sharing="shared")
    assert shared.policies == {"shared": ["actor_0"]}


def test_a_team_of_frozen_agents_plays_the_bare_base():
    team = build_team(["actor_0"], {"*": "frozen:tiny"}, lora=LoraSettings(), sampling=SAMPLING)
    plain = build_team(["actor_0"], {"*": "tiny"}, lora=LoraSettings(), sampling=SAMPLING)
    [own], [other] = (t.act([Request("actor_0", "2 + 2?", np.random.default_rng(0))]) for t in (team, plain))
    assert not team.policies
    assert own.text == other.text, "an untrained adapter changes nothing"


def test_turns_of_a_frozen_agent_belong_to_the_environment():
    team = word_team({"buyer_0": "buyer_0", "seller_0": None}, stir=0.3)
    start = [EpisodeStart(i, i, i) for i in range(4)]
    played = collect(lambda: Market(cut=True), team, start, seed=0, encode=team.encode, valued=team.learners)
    batch = build_batch(played, team.policies, LearnerSettings())
    assert batch.agents == ("buyer_0",)
    assert {t.final_agent for t in played} <= {"", "buyer_0"}
    assert batch.reward.sum() == pytest.approx(sum(t.team_return for t in played)), "the seller's go to the turn before"
    assert Learner(team, LearnerSettings(policy_lr=0.1)).update(played)["buyer_0/first_pass_log_ratio_max"] < 1e-4


# ------------------------------------------------------------------ endpoints


def test_a_team_learns_beside_an_endpoint_and_the_ledger_counts_both(endpoint):
    endpoint.usage = USAGE
    team = beside(endpoint.url)
    learner = Learner(team, LearnerSettings(policy_lr=0.1))
    before = adapters(team)
    metrics = Trainer(CopyDigit, team, learner, TrainingSchedule(updates=1, groups=4, group_size=2)).step()
    assert (metrics["speaker_0/prompt_tokens_sum"], metrics["speaker_0/output_tokens_sum"]) == (8 * 7, 8 * 3)
    own = metrics["actor_0/output_tokens_sum"]
    assert metrics["team/output_tokens_sum"] == metrics["team/tokens"] == metrics["tokens_total"] == own + 24
    assert metrics["team/critical_path_tokens_sum"] == own + 24
    assert not any(name.startswith("speaker_0/kl") for name in metrics)
    assert moved(before, adapters(team)) == {"actor_0"}
    team.close()


def test_a_checkpoint_names_the_endpoint_and_is_restored_exactly(endpoint, tmp_path):
    team = beside(endpoint.url)
    learner = Learner(team, LearnerSettings(policy_lr=0.1))
    Trainer(CopyDigit, team, learner, TrainingSchedule(updates=1, groups=2)).step()
    path = checkpoint.save(tmp_path, team, learner)
    state = json.loads((path / "state.json").read_text())
    assert state["team"]["speaker_0"] == {"remote": f"endpoint:{endpoint.url}#echo"}
    assert list(state["team"]) == ["speaker_0", "actor_0"]
    again = beside(endpoint.url)
    assert checkpoint.load(path, again, Learner(again, LearnerSettings(policy_lr=0.1))) == 1
    assert not moved(adapters(team), adapters(again))
    other = beside(NOBODY)
    with pytest.raises(checkpoint.CheckpointError, match=r"does not fit agent 'speaker_0': found .*remote"):
        checkpoint.load(path, other, Learner(other, LearnerSettings(policy_lr=0.1)))
    checkpoint.load_adapters(path, other)  # another partner may play beside the trained agent


def test_other_sampling_parameters_reach_the_endpoint(endpoint):
    team = beside(endpoint.url).under(dataclasses.replace(SAMPLING, temperature=0.0))
    assert team.act([Request("speaker_0", "say 2", np.random.default_rng(0))])[0].text == "2"
    assert endpoint.asked[0]["temperature"] == 0.0


def test_a_silent_endpoint_fails_its_episodes_and_no_others(endpoint):
    endpoint.answers.clear()
    team = beside(endpoint.url, remote_timeout=0.1)
    result = evaluate(CopyDigit, team, [{"seed": 0}, {"seed": 1}])
    assert result.failures == 2
    assert all("Timeout" in t.failure and endpoint.url in t.failure for t in result.trajectories)
    endpoint.answers.set()
    assert evaluate(CopyDigit, team, [{"seed": 0}]).failures == 0


def test_an_endpoint_that_does_not_answer_is_named_before_any_model_is_loaded(endpoint):
    with pytest.raises(RemoteError, match=f"--model verifier_0: endpoint {NOBODY}: wanted a server that answers"):
        check_partners({"*": "no-such-model", "verifier_0": f"endpoint:{NOBODY}#name"}, SAMPLING)
    check_partners({"verifier_0": f"endpoint:{endpoint.url}#name"}, SAMPLING)
    endpoint.models = (404, {"error": {"message": "no such route"}})
    check_partners({"verifier_0": f"endpoint:{endpoint.url}#name"}, SAMPLING)
    endpoint.models = (401, {"error": {"message": "no such key"}})
    with pytest.raises(RemoteError, match="no such key"):
        check_partners({"verifier_0": f"endpoint:{endpoint.url}#name"}, SAMPLING)


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": -1, "completion_tokens": 3}, {"prompt_tokens": 7}])
def test_counts_that_are_none_are_not_counted(endpoint, usage):
    endpoint.usage = usage
    [action] = beside(endpoint.url).act([Request("speaker_0", "say 2", np.random.default_rng(0))])
    assert (action.text, action.reported, action.num_tokens) == ("2", None, 0)
