"""The remote policy against a real HTTP server on this machine that speaks chat completions."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

from marft_agents.generation.sampling import SamplingParams
from marft_agents.policies.policy import Request
from marft_agents.policies.remote import RemoteError, RemotePolicy
from marft_agents.policies.scripted import MixedPolicy, ScriptedPolicy
from marft_agents.runs.evaluation import evaluate
from tests.helpers.endpoint import completion, serving
from tests.helpers.fakes import CopyDigit


@pytest.fixture
def endpoint():
    with serving() as server:
        yield server


@pytest.fixture
def remote(endpoint):
    made = []

    def make(model="echo", sampling=None, **knobs):
        made.append(RemotePolicy(endpoint.url, model, sampling, **knobs))
        return made[-1]

    yield make
    for policy in made:
        policy.close()


def requests(*observations, agent="partner_0"):
    return [Request(agent, text, np.random.default_rng(i)) for i, text in enumerate(observations)]


class Chat(str):
    """An observation with a chat form."""

    messages: tuple

    def __new__(cls, *messages):
        self = super().__new__(cls, "flat")
        self.messages = messages
        return self


def test_what_is_asked_and_what_comes_back(endpoint, remote, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    sampling = SamplingParams(temperature=0.5, top_p=0.9, max_new_tokens=7)
    policy = remote("some-model", sampling, api_key_env="MY_KEY")
    chat = Chat(
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "2 + 2?", "name": "environment"},
        {"role": "user", "content": "add them", "name": "reasoner_0"},
    )
    [action, plain] = policy.act(requests(chat, "say hello"))
    assert (action.text, plain.text) == ("them", "hello")
    assert len(action.token_ids) == 0
    asked = {body["messages"][0]["content"]: body for body in endpoint.asked}
    body = asked["be brief"]
    assert body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "2 + 2?\n\nreasoner_0: add them"},
    ]
    assert asked["say hello"]["messages"] == [{"role": "user", "content": "say hello"}]
    assert {k: v for k, v in body.items() if k != "messages"} == {
        "model": "some-model",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 7,
        "seed": int(np.random.default_rng(0).integers(2**31)),
    }
    assert endpoint.keys == {"Bearer secret"}


def test_seeds_come_from_the_turns_own_generator(endpoint, remote):
    policy = remote()
    for _ in range(2):
        policy.act(requests("a b", "c d"))
    seeds = {}
    for body in endpoint.asked:
        seeds.setdefault(body["messages"][0]["content"], set()).add(body["seed"])
    assert [len(s) for s in seeds.values()] == [1, 1]
    assert len(set.union(*seeds.values())) == 2


def test_an_error_500_is_tried_again(endpoint, remote):
    endpoint.script = [(500, {"error": {"message": "out of memory"}})] * 2
    assert [a.text for a in remote(retries=2).act(requests("say yes"))] == ["yes"]
    assert len(endpoint.asked) == 3


def test_an_endpoint_that_keeps_failing_is_named_with_what_came(endpoint, remote):
    endpoint.script = [(500, {"error": {"message": "out of memory"}})] * 2
    with pytest.raises(RemoteError, match=r"127\.0\.0\.1.*'echo'.*'partner_0'.*500.*out of memory"):
        remote(retries=1).act(requests("say yes"))


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, {"choices": []}, "choices"),
        (200, {"answer": "yes"}, "choices"),
        (200, completion([1]), "content"),
        (200, {"choices": [{"message": None}]}, "content"),
        (200, b"<html>a proxy's page</html>", "JSON|choices"),
        (200, [1, 2], "choices"),
        (401, {"error": {"message": "no such key"}}, "no such key"),
        (404, {"error": {"message": "no such model"}}, "no such model"),
    ],
)
def test_a_malformed_answer_or_a_refusal_is_named(endpoint, remote, status, body, message):
    endpoint.script = [(status, body)]
    with pytest.raises(RemoteError, match=f"endpoint {endpoint.url}.*({message})") as caught:
        remote(retries=0).act(requests("say yes"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_message_without_content_is_an_empty_answer(endpoint, remote):
    endpoint.script = [(200, completion(None, {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}))]
    [action] = remote(retries=0).act(requests("say yes"))
    assert (action.text, action.failure) == ("", None)
    assert action.reported == (5, 7)


def test_the_token_limit_has_another_name_and_no_seed_is_sent_where_the_endpoint_wants_it(endpoint, remote):
    remote(token_limit="max_completion_tokens", sends_seed=False).act(requests("say yes"))
    [body] = endpoint.asked
    assert body["max_completion_tokens"] == SamplingParams().max_new_tokens
    assert not {"max_tokens", "seed"} & set(body)


def test_a_silent_endpoint_times_out(endpoint, remote):
    endpoint.answers.clear()
    with pytest.raises(RemoteError, match="Timeout"):
        remote(timeout_s=0.1, retries=0).act(requests("say yes"))


def test_nobody_listens():
    policy = RemotePolicy("http://127.0.0.1:9/v1", "echo", retries=0)
    with pytest.raises(RemoteError, match=r"endpoint http://127\.0\.0\.1:9/v1.*Connection"):
        policy.act(requests("say yes"))
    policy.close()


def test_many_requests_stay_within_the_limit_and_in_order(endpoint, remote):
    # Answered in fives: fewer at once break the barrier. While five wait, `action` leaves a sixth time to arrive.
    endpoint.together = threading.Barrier(5, action=lambda: time.sleep(0.02))
    texts = [f"say w{i}" for i in range(40)]
    found = remote(concurrency=5).act(requests(*texts))
    assert [a.text for a in found] == [f"w{i}" for i in range(40)]
    assert endpoint.most_at_once == 5


def test_after_a_failure_the_waiting_requests_are_not_sent(endpoint, remote):
    endpoint.script = [(401, {"error": {"message": "no such key"}})] * 40
    with pytest.raises(RemoteError):
        remote(concurrency=2, retries=0).act(requests(*[f"say w{i}" for i in range(40)]))
    assert len(endpoint.asked) < 40


def test_a_remote_partner_plays_beside_another(endpoint, remote):
    """The speaker is remote (it repeats its digit), the actor repeats what it hears: the team always wins."""
    parrot = ScriptedPolicy(lambda agent, observation: observation.split()[-1])
    result = evaluate(
        CopyDigit, MixedPolicy({"speaker_0": remote(), "actor_0": parrot}), [{"seed": i} for i in range(6)]
    )
    assert result.accuracy.mean == 1
    assert len(endpoint.asked) == 6


def test_no_requests_no_answers(remote):
    assert remote().act([]) == []


def test_top_k_is_refused():
    with pytest.raises(RemoteError, match="top_k = 5"):
        RemotePolicy("http://127.0.0.1:9/v1", "echo", SamplingParams(top_k=5))


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "marft_common.openai_client", None)  # what an import finds without openai
    with pytest.raises(RemoteError, match=r"pip install .*\[remote\]'"):
        RemotePolicy("http://127.0.0.1:9/v1", "echo")
