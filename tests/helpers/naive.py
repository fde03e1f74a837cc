"""MARFT written out plainly: one sequence at a time, no cache, no sharing; what the learner must agree with."""

from __future__ import annotations

import hashlib
import math
from functools import partial

import numpy as np
import torch

from marft_agents.learning.settings import LearnerSettings
from marft_agents.rollouts.rollout import collect, training_episodes
from tests.helpers.fakes import Market

# Adam with a huge epsilon is plain gradient descent with step lr / epsilon: what moved is the gradient.
# Sixteen small passes of the critic are a third of an update's time, where a test is about something else.
BRIEF_CRITIC = {"value_epochs": 1, "value_mini_batches": 2}
# The critic stays at 0: more than one pass would only take time.
IDLE_CRITIC = {"critic_lr": 1e-9, "value_epochs": 1, "value_mini_batches": 1}
DESCENT = {"policy_lr": 1e6, "adam_epsilon": 1e6, "max_grad_norm": 1e9, "trace_decay": 0.9, **IDLE_CRITIC}


_PLAYED = {}


def play(team, make_env=Market, *, episodes=6, seed=0, policy=None):
    """Return trajectories of a team. Without another policy, equal teams play a game once in a process."""
    plan = training_episodes(seed, 0, episodes, 1)
    collected = partial(collect, make_env, policy or team, plan, seed=seed, encode=team.encode)
    if policy is not None:
        return collected()
    env = make_env()
    key = (*_content(team), type(env), str(vars(env)), episodes, seed)
    if key not in _PLAYED:
        _PLAYED[key] = collected()
    return list(_PLAYED[key])


def _content(team):
    """Return what decides a team's actions, with a digest of its weights."""
    digest = hashlib.sha256()
    for base in team.bases:
        digest.update(str(base.peft.config).encode())
        for name, tensor in base.peft.state_dict().items():
            digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    agents = [(agent, team.bases.index(local.base), local.adapter) for agent, local in team.local_agents.items()]
    return digest.digest(), str(agents), team.sampling, team.context, team.max_batch, team.engine


def adapters(team):
    """Return copies of all adapter tensors: policy -> name -> tensor."""
    bases = {policy: team.local_agent(agents[0]).base for policy, agents in team.policies.items()}
    return {p: {k: v.detach().clone() for k, v in base.parameters(p).items()} for p, base in bases.items()}


def moved(before, after):
    """Return the policies of which any byte changed."""
    return {p for p in before if any(not torch.equal(before[p][k], after[p][k]) for k in before[p])}


def logprobs(base, adapter, action, sampling):
    """Return the log-prob of each token of an action and the entropies, by one plain pass."""
    ids = torch.as_tensor(np.concatenate([action.prompt_ids, action.token_ids]), dtype=torch.long)[None]
    with base.active_adapter(adapter):
        logits = base.peft(input_ids=ids).logits[0, len(action.prompt_ids) - 1 : -1].float() / sampling.temperature
    if action.support is not None:
        allowed = torch.zeros(logits.shape, dtype=torch.bool)
        for row, kept in zip(allowed, action.support, strict=True):
            row[torch.as_tensor(kept, dtype=torch.long)] = True
        logits = logits.masked_fill(~allowed, -1e30)
    all_logprobs = logits.log_softmax(-1)
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    return all_logprobs[range(len(action.token_ids)), action.token_ids.tolist()], entropy


def support_mask(logits, sampling):
    """Return bool [..., V]: True for tokens kept by top-k and top-p, by ordering the whole vocabulary."""
    ordered, index = logits.sort(dim=-1, descending=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if sampling.top_k:
        keep[..., sampling.top_k :] = False
    if sampling.top_p < 1:
        mass = ordered.masked_fill(~keep, -torch.inf).softmax(-1)
        keep &= mass.cumsum(-1) - mass < sampling.top_p
    return torch.zeros_like(keep).scatter(-1, index, keep)


def credits(trajectories, members, settings: LearnerSettings):
    """Return (episode, turn, advantages) of some agents' turns for a critic that says 0 everywhere.

    With V = 0 the advantage is the sum of later rewards, each discounted by (gamma lambda) per turn between.
    """
    credited = []
    for agent in members:
        found = []
        for e, trajectory in enumerate(trajectories):
            turns = trajectory.turns
            for k, turn in enumerate(turns):
                if turn.agent == agent:
                    decay = settings.discount * settings.trace_decay
                    credit = sum(decay ** (m - k) * turns[m].reward for m in range(k, len(turns)))
                    found.append((e, turn, [credit] * (len(turn.action.token_ids) if settings.level == "token" else 1)))
        flat = np.concatenate([c for _, _, c in found])  # normalised per agent, also where agents share an adapter
        spread = flat.std() if flat.std() > 1e-6 else math.inf
        credited += [(e, turn, (np.asarray(c) - flat.mean()) / spread) for e, turn, c in found]
    return credited


def gradient(team, trajectories, policy, settings: LearnerSettings, weights=None):
    """Return d loss / d adapter of the first pass, from the formulas of the paper."""
    agents = team.policies[policy]
    base = team.local_agent(agents[0]).base
    members = credits(trajectories, agents, settings)
    decisions = sum(len(c) for _, _, c in members)
    tokens = sum(len(turn.action.token_ids) for _, turn, _ in members)
    loss = torch.zeros(())
    for e, turn, credit in members:
        new, entropy = logprobs(base, policy, turn.action, team.sampling)
        log_ratio = new - torch.as_tensor(turn.action.logprobs)
        if settings.level == "action":
            words = max(1, len(turn.action.text.split()))
            divisor = {"sum": 1, "token": len(new), "word": words}[settings.normalisation]
            log_ratio = log_ratio.sum()[None] / divisor
        weight = 1.0 if weights is None else weights[e, turn.round]
        advantage = torch.as_tensor(credit * weight, dtype=torch.float32)
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
        loss = loss - torch.minimum(ratio * advantage, clipped * advantage).sum() / decisions
        loss = loss - settings.entropy_bonus * entropy.sum() / tokens
    with base.active_adapter(policy):
        tensors = base.parameters(policy)
        return dict(zip(tensors, torch.autograd.grad(loss, list(tensors.values())), strict=True))


def assert_stepped_along(before, after, wanted, *, step=1.0, tolerance=2e-4):
    """Assert that each tensor moved by -step * its wanted gradient."""
    scale = max(g.abs().max().item() for g in wanted.values())
    assert scale > 1e-4, "the gradient is too small to tell anything"
    for name, g in wanted.items():
        difference = (before[name] - after[name] - step * g).abs().max().item()
        assert difference < tolerance * step * scale, f"{name}: off by {difference / (step * scale):.1e} of the largest"
