"""Scores, features and parameters for algorithms written elsewhere: the learner's own numbers, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from marft_agents import EpisodeStart, Learner, LearnerSettings, ScriptedPolicy, collect
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.batch import build_batch
from marft_agents.learning.critic import TeamCritic
from marft_agents.learning.pass_size import PassSize
from marft_agents.learning.scoring import LogProbScorer
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.random_models import LINEAR_LAYERS
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.policy import Request, session_of, text_action
from tests.helpers.fakes import CopyDigit, word_model, word_team
from tests.helpers.naive import logprobs

AGENTS = ("speaker_0", "actor_0")
SAMPLINGS = [
    SamplingParams(max_new_tokens=4),
    SamplingParams(temperature=0.7, top_k=9, top_p=0.8, max_new_tokens=4),
]


def requests(agent, count=6):
    return [Request(agent, f"digit {i % 3}", np.random.default_rng([7, i])) for i in range(count)]


def sampled(team, agent="speaker_0", count=6):
    """Return prompts and actions that an agent sampled."""
    actions = team.act(requests(agent, count))
    return [action.prompt_ids for action in actions], actions


def played(team, episodes=8):
    starts = [EpisodeStart(number, number, number) for number in range(episodes)]
    return collect(CopyDigit, team, starts, seed=0, encode=team.encode)


# ------------------------------------------------------------------ the learner's numbers


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_scores_are_what_the_sampler_recorded_with_the_entropy_of_its_distribution(sampling):
    team = word_team(AGENTS, sampling=sampling, stir=0.5)
    prompts, actions = sampled(team)
    scores = team.score("speaker_0", prompts, actions)
    recorded = np.concatenate([action.logprobs for action in actions])
    assert np.abs(scores.logprobs.detach().numpy() - recorded).max() < 3e-5
    assert scores.lengths == tuple(len(action.token_ids) for action in actions)
    local = team.local_agent("speaker_0")
    with torch.no_grad():
        entropies = [logprobs(local.base, local.adapter, action, sampling)[1] for action in actions]
    assert torch.allclose(scores.entropy.detach(), torch.cat(entropies), atol=3e-5)
    wanted = [float(action.logprobs.sum()) for action in actions]
    assert scores.action_logprobs.detach().tolist() == pytest.approx(wanted, abs=1e-4)
    assert scores.action_entropies.detach().tolist() == pytest.approx([float(own.sum()) for own in entropies], abs=1e-4)


def test_scores_within_an_update_are_the_learners_bit_for_bit(monkeypatch):
    """Each pass of an update, with its gradient, is compared with `team.score` of the same actions at that moment."""
    team = word_team(AGENTS, stir=0.5)
    learner = Learner(team, LearnerSettings(entropy_bonus=0.1, ppo_epochs=2, micro_batch=3))
    own, compared = LogProbScorer.score, []

    def both(self, base, adapter, actions, *, entropy_gradient=False):
        theirs = own(self, base, adapter, actions, entropy_gradient=entropy_gradient)
        ours = team.score(adapter, [action.prompt_ids for action in actions], actions)
        compared.append(torch.equal(ours.logprobs, theirs.logprobs) and torch.equal(ours.entropy, theirs.entropy))
        tensors = team.parameters(adapter)
        if ours.logprobs.requires_grad:
            gradients = [
                torch.autograd.grad((one.logprobs + one.entropy).sum(), tensors, retain_graph=True)
                for one in (ours, theirs)
            ]
            compared.append(all(torch.equal(a, b) for a, b in zip(*gradients, strict=True)))
        return theirs

    monkeypatch.setattr(LogProbScorer, "score", both)
    learner.update(played(team))
    assert len(compared) > 8
    assert all(compared)


def test_token_ids_alone_score_as_the_actions_do():
    team = word_team(AGENTS, stir=0.5)
    prompts, actions = sampled(team)
    wanted = team.score("speaker_0", prompts, actions).logprobs
    for convert in (np.ndarray.tolist, torch.as_tensor, lambda ids: ids.astype(np.int64)):
        ids = [convert(action.token_ids) for action in actions]
        assert torch.equal(team.score("speaker_0", [convert(ids) for ids in prompts], ids).logprobs, wanted)


@pytest.mark.parametrize("level", ["action", "token"])
def test_features_are_those_of_the_learners_value_heads_bit_for_bit(level):
    team = word_team(AGENTS, stir=0.5)
    settings = LearnerSettings(level=level)
    batch = build_batch(played(team), team.policies, settings)
    (wanted,), _ = TeamCritic(team, settings, PassSize(None), seed=0).bare_pass(batch)
    prompts = [action.prompt_ids for action in batch.actions]  # agents of one base share its features
    found = team.features(AGENTS[0], prompts, batch.actions if level == "token" else None)
    assert torch.equal(found, wanted)
    assert not found.requires_grad


def test_the_reference_is_the_bare_base():
    team = word_team(AGENTS, stir=0.5)
    prompts, actions = sampled(team)
    found = team.score("speaker_0", prompts, actions, reference=True).logprobs
    bare = word_team({"speaker_0": None, "actor_0": "actor_0"})
    with torch.no_grad():
        assert torch.equal(found, bare.score("speaker_0", prompts, actions).logprobs)
    assert not found.requires_grad


# ------------------------------------------------------------------ training


def test_parameters_are_the_adapters_alone_and_what_is_learned_is_played():
    team = word_team(AGENTS)
    prompts, actions = sampled(team, count=4)
    before = [tensor.clone() for tensor in team.parameters("actor_0")]
    optimizer = torch.optim.SGD(team.parameters("speaker_0"), 0.5)
    for _ in range(20):
        optimizer.zero_grad()
        (-team.score("speaker_0", prompts[:1], [[3, 2]]).logprobs.mean()).backward()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, team.parameters("actor_0"), strict=True))
    heard = team.act([*requests("speaker_0", 1), *requests("actor_0", 1)])  # both adapters in one batch
    assert heard[0].token_ids.tolist() == [3, 2]
    assert actions[0].token_ids.tolist() != [3, 2]


def test_agents_of_a_shared_adapter_have_its_parameters():
    team = word_team(dict.fromkeys(AGENTS, "shared"))
    assert all(a is b for a, b in zip(*map(team.parameters, AGENTS), strict=True))


@pytest.mark.parametrize(("targets", "recomputed"), [(("q_proj",), 0.0), ((*LINEAR_LAYERS, "lm_head"), 1.0)])
def test_one_loss_of_several_agents_has_the_gradient_of_each(targets, recomputed):
    """Without care PEFT drops the gradient of the adapter scored first, and recomputed layers apply the last one."""
    base = AdaptedBase(word_model(), AGENTS, LoraSettings(4, 8, targets), seed=0)
    generator = torch.Generator().manual_seed(0)
    for agent in AGENTS:
        for tensor in base.parameters(agent).values():
            tensor.data += 0.5 * torch.randn(tensor.shape, generator=generator)
    base.recompute_layers(recomputed)
    team = LanguageModelTeam({agent: LocalAgent(base, agent) for agent in AGENTS}, SamplingParams(max_new_tokens=2))
    records = {agent: sampled(team, agent, 3) for agent in AGENTS}

    def loss(agent):
        scores = team.score(agent, *records[agent])
        return (scores.logprobs - 0.1 * scores.entropy).sum()

    alone = {agent: torch.autograd.grad(loss(agent), team.parameters(agent)) for agent in AGENTS}
    together = loss(AGENTS[0]) + loss(AGENTS[1])
    team.features(AGENTS[0], records[AGENTS[0]][0])
    team.act(requests(AGENTS[0], 1))
    together.backward()
    for agent in AGENTS:
        assert any(gradient.abs().max() > 0 for gradient in alone[agent])
        for tensor, wanted in zip(team.parameters(agent), alone[agent], strict=True):
            assert torch.allclose(tensor.grad, wanted, atol=1e-6)


# ------------------------------------------------------------------ refused


def mixed_team():
    """Return a team with a trained, a frozen and a remote agent, and prompts and actions of the first."""
    team = word_team({"speaker_0": "speaker_0", "frozen_0": None})
    remote = LanguageModelTeam(team.local_agents, team.sampling, partners={"remote_0": ScriptedPolicy(None)})
    return remote, *sampled(team)


@pytest.mark.parametrize("agent", ["remote_0", "scripted_0"])
@pytest.mark.parametrize("ask", ["score", "features", "parameters"])
def test_an_agent_without_a_local_model_is_refused(agent, ask):
    team, prompts, actions = mixed_team()
    given = {"score": (prompts, actions), "features": (prompts,), "parameters": ()}[ask]
    reason = "is remote" if agent == "remote_0" else "is none of this team"
    with pytest.raises(ValueError, match=f"agent '{agent}' {reason}.*no model of this process.*speaker_0, frozen_0"):
        getattr(team, ask)(agent, *given)


def test_a_frozen_agent_is_scored_but_not_trained():
    team, prompts, actions = mixed_team()
    for ask in (lambda: team.parameters("frozen_0"), lambda: team.score("frozen_0", prompts, actions)):
        with pytest.raises(ValueError, match=r"'frozen_0' plays 'words-0' frozen.*torch\.no_grad"):
            ask()
    with torch.no_grad():
        assert len(team.score("frozen_0", prompts, actions).lengths) == len(actions)


def test_a_greedy_team_is_refused():
    team = word_team(AGENTS)
    prompts, actions = sampled(team)
    with pytest.raises(ValueError, match=r"temperature = 0, wanted > 0.*team\.under"):
        team.under(SamplingParams(temperature=0)).score("speaker_0", prompts, actions)


def _first(change):
    """Return a function that changes the first of some prompts or actions."""
    return lambda items: [change(items[0]), *items[1:]]


@pytest.mark.parametrize(
    ("prompts", "actions", "found"),
    [
        (list, lambda items: items[1:], "found 6 prompts and 5 actions, wanted as many"),
        (lambda items: [], lambda items: [], "found 0 prompts and 0 actions"),
        (_first(lambda ids: "digit 1"), list, "prompt 0: found text, wanted token ids: team.encode"),
        (_first(lambda ids: ids[None]), list, "prompt 0: found int32 of shape (1,"),
        (_first(lambda ids: ids[:0]), list, "prompt 0: found int32 of shape (0,)"),
        (_first(lambda ids: ids / 2), list, "prompt 0: found float64 of shape"),
        (_first(lambda ids: [*ids, 15]), list, "prompt 0: found token 15, wanted 0 to 14, the vocabulary of 'words-0'"),
        (list, _first(lambda action: [-1]), "action 0: found token -1, wanted 0 to 14"),
        (list, _first(lambda action: torch.tensor([1.0])), "action 0: found float32 of shape (1,)"),
        (list, _first(lambda action: text_action("0")), "action 0: it has no tokens"),
        (list, _first(lambda action: replace(action, text="zero")), "wanted 'zero', its text: another tokenizer"),
        (_first(lambda ids: np.zeros(511, np.int32)), list, "found 511 tokens of the prompt and"),
    ],
)
def test_what_is_no_action_of_the_agent_is_refused(prompts, actions, found):
    team, read, said = mixed_team()
    said = [replace(action, token_ids=np.array([3, 4]), text="0 1") for action in said]
    with pytest.raises(ValueError, match=f"agent 'speaker_0'.*{re.escape(found)}"):
        team.score("speaker_0", prompts(read), actions(said))


def test_an_action_whose_text_a_stop_text_ended_is_scored():
    team = word_team(AGENTS)
    prompts, actions = sampled(team, count=1)
    cut = replace(actions[0], token_ids=np.array([3, 4]), text="0")
    assert team.score("speaker_0", prompts, [cut]).lengths == (2,)


def test_top_k_needs_the_tokens_that_could_have_been_sampled():
    team = word_team(AGENTS, sampling=SAMPLINGS[1])
    prompts, actions = sampled(team)
    with pytest.raises(ValueError, match=r"action 0: found token ids alone, wanted the Action.*support"):
        team.score("speaker_0", prompts, [action.token_ids for action in actions])


def test_a_gradient_inside_a_session_is_refused_also_of_a_team_on_the_same_base():
    team = word_team(AGENTS)
    prompts, actions = sampled(team)
    session = session_of(team.under(SamplingParams(temperature=0)))
    with pytest.raises(RuntimeError, match=r"1 generation session\(s\) on 'words-0' are open.*no_grad"):
        team.score("speaker_0", prompts, actions)
    with torch.no_grad():
        team.score("speaker_0", prompts, actions)
    session.close()
    assert team.score("speaker_0", prompts, actions).logprobs.requires_grad


def test_a_gradient_while_episodes_are_collected_is_refused_and_allowed_after_them():
    team = word_team(AGENTS)
    prompts, actions = sampled(team)
    causes = []

    def train(trajectory):
        with pytest.raises(RuntimeError, match="are open") as error:
            team.score("speaker_0", prompts, actions)
        causes.append(error)

    collect(CopyDigit, team, [EpisodeStart(0, 0, 0)], seed=0, on_end=train)
    assert len(causes) == 1
    assert team.score("speaker_0", prompts, actions).logprobs.requires_grad
