"""Other engines as samplers: a real HTTP server with vLLM's API, and a module with vLLM's signatures."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import threading

import numpy as np
import pytest
import torch

from baselines.cli.main import main
from baselines.experiment.environments import factory
from baselines.experiment.samplers import check_sampler, open_sampler
from baselines.programs import ENVIRONMENT
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.pretrained import load
from marft_agents.models.random_models import LINEAR_LAYERS, word_level
from marft_agents.policies.canary import PROMPT, WIDTH, Canary, first_token_log_probs
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.policy import Request, Sampler
from marft_agents.policies.remote import RemoteError
from marft_agents.policies.sampler_error import SamplerError
from marft_agents.policies.scripted import MixedPolicy, ScriptedPolicy
from marft_agents.policies.server_log import log_path
from marft_agents.policies.server_sampler import ServerSampler
from marft_agents.policies.vllm_sampler import VllmSampler
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.trajectory import EpisodeStart
from tests.helpers import fake_vllm, talking_program
from tests.helpers.fakes import Market, word_model
from tests.helpers.naive import BRIEF_CRITIC

SAMPLING = SamplingParams(temperature=0.7, max_new_tokens=8)
TEXTS = ["digit 1", "heard 2", "digit 1", "topic a", "digit 1"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    words = word_model(spread=0.3)
    words.model.save_pretrained(folder)
    words.tokenizer.save_pretrained(folder)
    return str(folder)


def stir(team, policy, seed, noise=0.3):
    base = team.local_agents[team.policies[policy][0]].base
    generator = torch.Generator().manual_seed(seed)
    for tensor in base.parameters(policy).values():
        tensor.data += noise * torch.randn(tensor.shape, generator=generator)


def make_team(folder, sampling=SAMPLING, learners=("speaker_0", "actor_0"), frozen=("judge_0",), noise=0.3):
    base = AdaptedBase(load(folder, device=CPU), learners, LoraSettings(4, 8, LINEAR_LAYERS), seed=0)
    local_agents = {agent: LocalAgent(base, agent) for agent in learners} | {
        agent: LocalAgent(base, None) for agent in frozen
    }
    team = LanguageModelTeam(local_agents, sampling)
    for seed, policy in enumerate(team.policies):
        stir(team, policy, seed, noise)
    return team


@contextlib.contextmanager
def serve(folder, **engine):
    with fake_vllm.Server(folder, **engine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(model_folder):
    with serve(model_folder) as started:
        yield started


@pytest.fixture(params=["server", "vllm"])
def make_sampler(request, tmp_path, monkeypatch, model_folder):
    """Return (team) -> sampler of one kind, with its adapters in tmp_path/adapters."""
    with contextlib.ExitStack() as stack:
        if request.param == "server":
            url = stack.enter_context(serve(model_folder)).url

            def make(team):
                return stack.enter_context(contextlib.closing(ServerSampler(team, tmp_path / "adapters", url)))
        else:
            for name, module in fake_vllm.modules().items():
                monkeypatch.setitem(sys.modules, name, module)

            def make(team):
                return stack.enter_context(contextlib.closing(VllmSampler(team, tmp_path / "adapters")))

        yield make


def requests(agent, seed=0, texts=TEXTS):
    return [Request(agent, text, np.random.default_rng([seed, i])) for i, text in enumerate(texts)]


def plain_logprobs(team, agent, action):
    """Return the trained model's own log-probs of an action's tokens: one plain forward, no cache."""
    local = team.local_agents[agent]
    ids = torch.as_tensor(np.concatenate([action.prompt_ids, action.token_ids]), dtype=torch.long)
    with torch.no_grad(), local.base.active_adapter(local.adapter):
        logits = local.base.peft(ids[None]).logits[0, len(action.prompt_ids) - 1 : -1] / team.sampling.temperature
    if action.support is not None:
        mask = torch.full_like(logits, -torch.inf)
        for row, ids_left in zip(mask, action.support, strict=True):
            row[torch.as_tensor(ids_left, dtype=torch.long)] = 0
        logits = logits + mask
    return logits.log_softmax(-1).gather(-1, torch.as_tensor(action.token_ids)[:, None].long())[:, 0].numpy()


def assert_sampled_from(team, agent, actions):
    for action in actions:
        np.testing.assert_allclose(action.logprobs, plain_logprobs(team, agent, action), atol=1e-4)


def test_tokens_and_logprobs_are_those_of_the_agents_own_adapter(make_sampler, model_folder):
    team = make_team(model_folder)
    sampler = make_sampler(team)
    sampler.refresh()
    for agent in team.local_agents:
        actions = sampler.act(requests(agent))
        assert_sampled_from(team, agent, actions)
        tokenizer = team.local_agents[agent].base.tokenizer
        for text, action in zip(TEXTS, actions, strict=True):
            assert not action.exact
            assert action.prompt_ids.tolist() == team.encode(agent, text).tolist()
            assert action.text == tokenizer.decode(action.token_ids, skip_special_tokens=True)
            assert action.stopped == (action.token_ids[-1] == 2)
            assert action.stopped or len(action.token_ids) == SAMPLING.max_new_tokens
        others = set(team.local_agents) - {agent}
        gaps = [abs(a.logprobs - plain_logprobs(team, other, a)).max() for other in others for a in actions]
        assert max(gaps) > 0.1  # the agents' distributions differ, so that the comparison above says something


def test_one_batch_holds_all_agents(make_sampler, model_folder):
    team = make_team(model_folder)
    sampler = make_sampler(team)
    sampler.refresh()
    mixed = [request for pair in zip(*map(requests, team.local_agents), strict=True) for request in pair]
    actions = sampler.act(mixed)
    for request, action in zip(mixed, actions, strict=True):
        assert_sampled_from(team, request.agent, [action])
    assert {action.stopped for action in actions} == {True, False}


def test_an_agent_program_plays_on_another_engine(make_sampler, model_folder, tmp_path):
    team = make_team(model_folder)
    sampler = make_sampler(team)
    sampler.refresh()
    short = {"model": "actor_0", "messages": [{"role": "user", "content": "heard 2"}], "max_tokens": 2}
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"steps": [["speaker_0", "digit 1"], {"raw": short}], "reward": 1}))
    program = f"{sys.executable} -I -S {talking_program.__file__}"
    env = factory(ENVIRONMENT, {"program": program, "agents": list(team.agents), "data": str(data)})()
    [found] = collect(lambda: env, sampler, [EpisodeStart(0, 0, 0)], seed=0)
    env.unwrapped.programs.close()
    assert found.failure is None
    assert [turn.agent for turn in found.turns] == ["speaker_0", "actor_0"]
    for turn in found.turns:
        assert not turn.action.exact
        assert_sampled_from(team, turn.agent, [turn.action])
    assert len(found.turns[1].action.token_ids) == 2


def test_a_refresh_takes_over_what_an_update_changed(make_sampler, model_folder):
    team = make_team(model_folder)
    sampler = make_sampler(team)
    sampler.refresh()
    before = {agent: sampler.act(requests(agent)) for agent in team.policies}
    stir(team, "actor_0", seed=7)
    stale = sampler.act(requests("actor_0"))
    assert [a.logprobs.tolist() for a in stale] == [a.logprobs.tolist() for a in before["actor_0"]]
    sampler.refresh()
    after = {agent: sampler.act(requests(agent)) for agent in team.policies}
    assert_sampled_from(team, "actor_0", after["actor_0"])
    assert [a.logprobs.tolist() for a in after["actor_0"]] != [a.logprobs.tolist() for a in before["actor_0"]]
    assert [a.logprobs.tolist() for a in after["speaker_0"]] == [a.logprobs.tolist() for a in before["speaker_0"]]


def test_what_is_drawn_follows_the_turns_generator(make_sampler, model_folder):
    sampler = make_sampler(make_team(model_folder))
    sampler.refresh()
    first, again, other = (
        [a.token_ids.tolist() for a in sampler.act(requests("actor_0", seed, ["digit 1"] * 6))] for seed in (0, 0, 1)
    )
    assert first == again != other
    assert len(set(map(tuple, first))) > 1  # samples of one prompt differ


def test_top_k_comes_with_its_support(make_sampler, model_folder):
    sampling = SamplingParams(temperature=0.9, top_k=4, top_p=0.8, max_new_tokens=6)
    team = make_team(model_folder, sampling)
    sampler = make_sampler(team)
    sampler.refresh()
    actions = sampler.act(requests("actor_0"))
    sizes = {len(ids) for action in actions for ids in action.support}
    assert sizes <= {1, 2, 3, 4}
    assert len(sizes) > 1
    assert all(t in ids for a in actions for t, ids in zip(a.token_ids, a.support, strict=True))
    assert_sampled_from(team, "actor_0", actions)


def test_top_p_alone_is_refused(make_sampler, model_folder):
    with pytest.raises(SamplerError, match=r"top_p = 0\.9 without top_k"):
        make_sampler(make_team(model_folder, SamplingParams(top_p=0.9)))


def test_before_the_first_refresh_there_are_no_adapters(make_sampler, model_folder):
    sampler = make_sampler(make_team(model_folder))
    assert isinstance(sampler, Sampler)
    with pytest.raises(SamplerError, match=r"refresh\(\)"):
        sampler.act(requests("actor_0"))


def test_a_sampler_plays_beside_a_script(make_sampler, model_folder):
    team = make_team(model_folder)
    mixed = MixedPolicy({"actor_0": make_sampler(team), "speaker_0": ScriptedPolicy(lambda agent, observation: "b")})
    mixed.refresh()
    [spoken, action] = mixed.act([*requests("speaker_0", texts=["digit 1"]), *requests("actor_0", texts=["heard b"])])
    assert spoken.text == "b"
    assert_sampled_from(team, "actor_0", [action])


def test_only_the_newest_adapters_stay_on_disk(make_sampler, model_folder, tmp_path):
    sampler = make_sampler(make_team(model_folder))
    for _ in range(3):
        sampler.refresh()
        sampler.act(requests("actor_0", texts=["digit 1"]))
    names = [path.name for path in (tmp_path / "adapters").iterdir()]
    assert sorted(name.rsplit("-", 2)[0] for name in names) == ["actor_0", "speaker_0"]
    assert all(name.endswith("-3") for name in names)
    sampler.close()
    assert list((tmp_path / "adapters").iterdir()) == []


def test_two_updates_of_learning(make_sampler, model_folder):
    """Play by the engine, learn in the team, refresh: what is played next is what was learned."""
    team = make_team(model_folder, learners=("buyer_0", "seller_0"), frozen=())
    sampler = make_sampler(team)
    learner = Learner(team, LearnerSettings(policy_lr=0.05, **BRIEF_CRITIC), seed=0)
    played = []
    for update in range(2):
        sampler.refresh()
        episodes = training_episodes(0, update, 2, 2)
        trajectories = collect(lambda: Market(rounds=1), sampler, episodes, seed=0, encode=team.encode)
        for turn in (turn for trajectory in trajectories for turn in trajectory.turns):
            assert_sampled_from(team, turn.agent, [turn.action])
        played.append(trajectories)
        learner.update(trajectories)
    assert learner.updates == 2
    last = played[-1][0].turns[0]
    assert abs(last.action.logprobs - plain_logprobs(team, last.agent, last.action)).max() > 1e-3  # it did learn


# ---------------------------------------------------------------------- the server


def test_what_the_server_is_asked_and_holds(server, model_folder, tmp_path):
    team = make_team(model_folder)
    sampler = ServerSampler(team, tmp_path, server.url)
    sampler.refresh()
    sampler.act(requests("actor_0", texts=["digit 1"]))
    body = server.asked[-1]
    assert body["prompt"] == team.encode("actor_0", "digit 1").tolist()
    assert body["model"].startswith("actor_0-")
    assert (body["min_p"], body["repetition_penalty"], body["stop_token_ids"]) == (0.0, 1.0, [2])
    first = set(server.engine.adapters)
    sampler.refresh()
    assert len(server.engine.adapters) == len(first) == 2
    assert not server.engine.adapters & first
    other = ServerSampler(team, tmp_path, server.url)  # another run on the same server and folder
    other.refresh()
    assert len(server.engine.adapters) == 4
    sampler.close()
    other.close()
    assert not server.engine.adapters


def test_a_server_that_was_started_again_is_loaded_anew(server, model_folder, tmp_path):
    team = make_team(model_folder)
    with contextlib.closing(ServerSampler(team, tmp_path, server.url)) as sampler:
        sampler.refresh()
        server.engine.adapters.clear()
        sampler.refresh()
        assert_sampled_from(team, "actor_0", sampler.act(requests("actor_0")))


def test_requests_without_an_adapter_wait_for_those_with_one(server, model_folder, tmp_path):
    """In one batch, vLLM's CPU kernels would apply an adapter to both."""
    team = make_team(model_folder)
    with contextlib.closing(ServerSampler(team, tmp_path, server.url)) as sampler:
        sampler.refresh()
        server.asked.clear()
        sampler.act([*requests("judge_0"), *requests("actor_0"), *requests("judge_0")])
    models = [body["model"] for body in server.asked]
    assert [model == model_folder for model in models] == [False] * 5 + [True] * 10


def test_an_adapter_that_the_server_lost_in_between(server, model_folder, tmp_path):
    with contextlib.closing(ServerSampler(make_team(model_folder), tmp_path, server.url)) as sampler:
        sampler.refresh()
        server.engine.adapters.clear()
        with pytest.raises(RemoteError, match=r"model 'actor_0-.*does not exist.*started again.*--resume"):
            sampler.act(requests("actor_0"))


def test_a_server_that_fails_in_mid_batch_is_explained_by_its_log(server, model_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MARFT_CACHE", str(tmp_path))
    log_path(server.server_port).write_text("(EngineCore pid=9) ERROR 1-1 [core.py:1] MemoryError: no room\n")
    with contextlib.closing(ServerSampler(make_team(model_folder), tmp_path, server.url, retries=0)) as sampler:
        sampler.refresh()
        server.completion = lambda body: fake_vllm._error(500, "EngineCore encountered an issue.")
        with pytest.raises(RemoteError, match=r"InternalServerError.*ends with the error: MemoryError: no room"):
            sampler.act(requests("actor_0"))


@pytest.mark.parametrize("words", [15, 25])
def test_a_server_with_another_base_model_is_refused(words, model_folder, tmp_path):
    """Also with one that has more tokens than the team's: their ids are none of the team's."""
    other = word_level([f"w{i}" for i in range(words)], hidden=48, head_std=0.3)
    other.model(1).save_pretrained(tmp_path)
    other.tokenizer().save_pretrained(tmp_path)
    with serve(str(tmp_path)) as started, pytest.raises(SamplerError, match=r"serves another model than .*base model"):
        ServerSampler(make_team(model_folder), tmp_path / "adapters", started.url)


def test_raw_logprobs_are_refused(model_folder, tmp_path):
    with serve(model_folder, raw_logprobs=True) as raw, pytest.raises(SamplerError, match="processed_logprobs"):
        ServerSampler(make_team(model_folder), tmp_path, raw.url)


def test_a_server_without_runtime_updates_is_told_apart(server, model_folder, tmp_path):
    server.updating = False
    with (
        contextlib.closing(ServerSampler(make_team(model_folder), tmp_path, server.url)) as sampler,
        pytest.raises(RemoteError, match=r"load_lora_adapter.*404.*VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
    ):
        sampler.refresh()


UNTRAINABLE = [  # left out of an answer, changed in it, and the error
    (("token_ids",), {}, r"token_ids.*vLLM 0\.11"),
    (("prompt_token_ids",), {}, "prompt_token_ids"),
    (("logprobs",), {}, "logprobs"),
    ((), {"logprobs": None}, "logprobs"),
    ((), {"prompt_token_ids": [1, 2]}, r"fed other tokens.*\[1, 2\]"),
    ((), {"token_ids": []}, "at least one token"),
    ((), {"finish_reason": "stop", "token_ids": [5], "logprobs": None}, "logprobs"),
    ((), {"finish_reason": "abort"}, "ended by 'abort'"),
]


def test_answers_that_can_not_be_trained_on_are_refused(server, model_folder, tmp_path):
    with contextlib.closing(ServerSampler(make_team(model_folder), tmp_path, server.url, retries=0)) as sampler:
        sampler.refresh()
        sampler.act(requests("actor_0"))
        for server.withheld, server.changed, message in UNTRAINABLE:
            with pytest.raises(SamplerError, match=message):
                sampler.act(requests("actor_0"))


def test_a_stop_token_that_the_model_does_not_know_is_refused(server, model_folder, tmp_path):
    with contextlib.closing(ServerSampler(make_team(model_folder), tmp_path, server.url)) as sampler:
        sampler.refresh()
        server.engine.tokenizer.eos_token = "a"  # what a generation_config.json of the folder can do
        with pytest.raises(SamplerError, match="--generation-config vllm"):
            sampler.act(requests("actor_0", texts=["digit 1"] * 40))


def test_nobody_listens(model_folder, tmp_path):
    with pytest.raises(RemoteError, match=r"server http://127\.0\.0\.1:9/v1.*Connection"):
        ServerSampler(make_team(model_folder), tmp_path, "http://127.0.0.1:9/v1", retries=0)


def test_a_team_on_two_bases_is_refused(server, model_folder, tmp_path):
    team = make_team(model_folder)
    two = LanguageModelTeam(
        {"actor_0": team.local_agents["actor_0"], "judge_0": make_team(model_folder).local_agents["judge_0"]}, SAMPLING
    )
    with pytest.raises(SamplerError, match="one base model; this team has 2"):
        ServerSampler(two, tmp_path, server.url)


# ---------------------------------------------------------------------- the canary


def base_alone(name):
    return None


def first_version(name):
    return name.rpartition("-")[0] + "-1"


@pytest.mark.parametrize(
    ("applied", "agent", "played"),
    [(base_alone, "speaker_0", "the base without adapter"), (first_version, "actor_0", "its previous version")],
)
def test_a_server_that_does_not_apply_an_adapter_stops_the_run(server, model_folder, tmp_path, applied, agent, played):
    team = make_team(model_folder)
    server.unload = lambda body: (200, "Success")  # it can go on with old versions
    with contextlib.closing(ServerSampler(team, tmp_path, server.url)) as sampler:
        sampler.refresh()
        server.applied = applied
        stir(team, "actor_0", seed=7)
        with pytest.raises(SamplerError, match=rf"server http.*'{agent}'.*those of {played}.*--no-canary"):
            sampler.refresh()
    with contextlib.closing(ServerSampler(team, tmp_path, server.url, canary=False)) as unchecked:
        unchecked.refresh()


def test_an_engine_that_does_not_apply_an_adapter_stops_the_run(monkeypatch, model_folder, tmp_path):
    for name, module in fake_vllm.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    sample = fake_vllm.LLM._one
    with contextlib.closing(VllmSampler(make_team(model_folder), tmp_path)) as sampler:
        sampler.refresh()
        monkeypatch.setattr(
            fake_vllm.LLM, "_one", lambda llm, prompt, sampling, lora: sample(llm, prompt, sampling, None)
        )
        with pytest.raises(SamplerError, match=r"vLLM does not sample from adapter 'speaker_0'.*those of the base"):
            sampler.refresh()


def test_adapters_that_an_update_left_alone_are_fine(make_sampler, model_folder):
    """Untrained adapters play as the base does, and adapters that wait as their previous version."""
    base = AdaptedBase(load(model_folder, device=CPU), ["actor_0"], LoraSettings(4, 8, LINEAR_LAYERS), seed=0)
    sampler = make_sampler(LanguageModelTeam({"actor_0": LocalAgent(base, "actor_0")}, SAMPLING))
    for _ in range(3):
        sampler.refresh()


def told_by(logprobs, error=0.0):
    """Return what an engine tells that plays these log-probs [V], with a rounding error."""
    noise = np.random.default_rng(0).normal(0, 1, len(logprobs)) * error
    return lambda agent, prompt: {int(i): float(logprobs[i] + noise[i]) for i in np.argsort(logprobs)[-WIDTH:]}


@pytest.mark.parametrize("error", [0.0, 0.03])
def test_the_canary_allows_for_the_precision_of_an_engine(model_folder, error):
    """Not for another model, nor for an update that is larger than the rounding error."""
    team = make_team(model_folder, learners=("actor_0",), frozen=())
    local, prompt = team.local_agents["actor_0"], team.encode("actor_0", PROMPT)
    canary = Canary(team, "engine")
    first = first_token_log_probs(local, prompt)
    canary.check(told_by(first, error))
    stir(team, "actor_0", seed=7)
    second = first_token_log_probs(local, prompt)
    assert abs(second - first).mean() > 0.1
    for stale in (first, first):  # a refused check records nothing
        with pytest.raises(SamplerError, match="its previous version"):
            canary.check(told_by(stale, error))
    with pytest.raises(SamplerError, match="those of another model"):
        canary.check(told_by(second + np.where(np.arange(len(second)) % 2, 2.0, -2.0), error))
    with pytest.raises(SamplerError, match="those of another model"):
        canary.check(lambda agent, prompt: {0: float("nan")})
    canary.check(told_by(second, error))


# ---------------------------------------------------------------------- the module


def test_what_the_engine_is_made_with(monkeypatch, model_folder, tmp_path):
    for name, module in fake_vllm.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    made = []
    monkeypatch.setattr(fake_vllm.LLM, "__init__", lambda self, **arguments: made.append(arguments))
    VllmSampler(make_team(model_folder), tmp_path, gpu_memory_utilization=0.3)
    assert made == [
        {
            "model": model_folder,
            "dtype": "float32",
            "max_model_len": 512,  # the model's own
            "gpu_memory_utilization": 0.3,
            "enable_lora": True,
            "max_loras": 2,
            "max_lora_rank": 8,
            "logprobs_mode": "processed_logprobs",
            "max_logprobs": 20,
            "generation_config": "vllm",
            "enforce_eager": True,
            "enable_chunked_prefill": False,  # on a CPU
            "max_num_batched_tokens": 16384,
            "kv_cache_memory_bytes": 1 << 30,
        }
    ]


def test_a_base_without_a_folder_is_refused(monkeypatch, tmp_path):
    for name, module in fake_vllm.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    base = AdaptedBase(load("tiny", device=CPU), ["actor_0"], LoraSettings(4), seed=0)
    with pytest.raises(SamplerError, match="folder or hub id; 'tiny' is neither"):
        VllmSampler(LanguageModelTeam({"actor_0": LocalAgent(base, "actor_0")}, SAMPLING), tmp_path)


def test_without_vllm_the_extra_is_named(monkeypatch, model_folder, tmp_path):
    monkeypatch.setitem(sys.modules, "vllm", None)  # what an import of an absent package finds
    with pytest.raises(SamplerError, match=r"pip install .*\[vllm\]' for a GPU.*`make vllm`"):
        VllmSampler(make_team(model_folder), tmp_path)


# ---------------------------------------------------------------------- the flag


def test_the_flag(server, monkeypatch, model_folder, tmp_path):
    team = make_team(model_folder)
    with open_sampler("own", team, tmp_path / "adapters") as policy:
        assert policy is team
    with open_sampler(server.url, team, tmp_path / "adapters") as policy:
        policy.refresh()
        assert len(server.engine.adapters) == 2
    assert not server.engine.adapters
    check_sampler("own")
    with pytest.raises(SamplerError, match="'hf': wanted own, vllm, or the URL"):
        check_sampler("hf")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name, extra in (("vllm", "vllm"), ("http://localhost:8000/v1", "remote")):
        with pytest.raises(SamplerError, match=rf"pip install .*\[{extra}\]'"):
            check_sampler(name)


def test_marft_train_learns_by_a_server(server, model_folder, tmp_path):
    place = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories", "--out", str(tmp_path / "run")]
    size = ["--updates", "2", "--groups", "2", "--group-size", "2", "--max-new-tokens", "4"]
    assert main(["train", *place, *size, "--model", model_folder, "--device", "cpu", "--sampler", server.url]) == 0
    bodies = [body for body in server.asked if body["max_tokens"] > 1]  # the others are probes
    played = [body["model"].rsplit("-", 2)[0] + body["model"][-2:] for body in bodies]
    assert sorted(played) == sorted([f"{agent}-{n}" for agent in ("reasoner_0", "actor_0") for n in (1, 2)] * 4)
    assert not server.engine.adapters
    assert json.loads((tmp_path / "run" / "versions.json").read_text())["sampler"] == server.url
