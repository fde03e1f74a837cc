"""Every algorithm written out from its paper, one action at a time, for a critic that says 0 everywhere.

Nothing of the package's credit or objectives is used: only log-probs of one plain forward pass per action.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import torch

from tests.helpers.naive import logprobs

PER_ACTION = ("marft-a", "ppo-a", "gspo", "rloo", "mappo", "ippo", "happo", "a2po")


def acted(trajectories, agent):
    """Yield (episode, k, turn) of an agent's trained turns."""
    for e, trajectory in enumerate(trajectories):
        for k, turn in enumerate(trajectory.turns):
            if turn.agent == agent and trajectory.branch in (None, k):
                yield e, k, turn


def discounted(rewards, decay):
    return sum(decay**m * reward for m, reward in enumerate(rewards))


def along_the_chain(trajectory, k, settings):
    """MARFT-A, PPO: the later rewards, each discounted by (gamma lambda) per turn between."""
    return discounted([t.reward for t in trajectory.turns[k:]], settings.discount * settings.trace_decay)


def along_tokens(trajectory, k, settings):
    """MARFT-T: (gamma lambda) per token inside a turn, too; VAPO's lambda there is 1 - 1 / (alpha l)."""
    following, found = 0.0, []
    for turn in reversed(trajectory.turns[k:]):
        length = len(turn.action.token_ids)
        alpha = settings.length_adaptive
        inner = settings.token_discount * (max(0, 1 - 1 / (alpha * length)) if alpha else settings.token_trace_decay)
        last = turn.reward + settings.discount * settings.trace_decay * following
        found = [last * inner ** (length - 1 - t) for t in range(length)]
        following = found[0]
    return found


def token_backup(actions, rewards, values, gamma, bootstrap):
    """The paper's section 4.1.2, line by line: what V of each token is drawn to.

    Args:
        actions: per round, per agent of the chain, its tokens.
        rewards: per round, R.
        values: per round, per agent, V before each of its tokens.
        bootstrap: V of the first token after the last round; 0 where the game ended.
    """
    targets = []
    for t, round_values in enumerate(values):
        for i, own in enumerate(round_values):
            for j in range(len(actions[t][i])):
                if j + 1 < len(own):  # inside an action
                    targets.append(0 + gamma * own[j + 1])
                elif i + 1 < len(round_values):  # to the next agent
                    targets.append(0 + gamma * round_values[i + 1][0])
                else:  # to the next round
                    targets.append(rewards[t] + gamma * (values[t + 1][0][0] if t + 1 < len(values) else bootstrap))
    return targets


def along_rounds(trajectory, k, settings):
    """MAPPO and its kin: rewards added up round by round, one advantage for all who act in a round."""
    rounds = defaultdict(float)
    for turn in trajectory.turns:
        rounds[turn.round] += turn.reward
    later = [rounds[r] for r in sorted(rounds) if r >= trajectory.turns[k].round]
    return discounted(later, settings.discount * settings.trace_decay)


def along_own_turns(trajectory, k, settings):
    """IPPO: what is earned up to one's next turn follows one's own."""
    sums = []
    for turn in trajectory.turns[k:]:
        if turn.agent == trajectory.turns[k].agent:
            sums.append(0.0)
        sums[-1] += turn.reward
    return discounted(sums, settings.discount * settings.trace_decay)


def standardised(found):
    flat = np.concatenate(list(found.values()))
    return {place: (x - flat.mean()) / flat.std() for place, x in found.items()}


def against_group(found, groups, *, others=False, spread=True):
    """Compare each with its group: one number per episode of the group, the mean over the agent's actions in it."""
    result = {}
    for place, x in found.items():
        by_episode = defaultdict(list)
        for other, y in found.items():
            if groups[other] == groups[place]:
                by_episode[other[0]].append(y[0])
        numbers = {e: np.mean(ys) for e, ys in by_episode.items()}
        compared = [n for e, n in numbers.items() if not (others and e == place[0])]
        deviation = np.std(list(numbers.values())) if spread else 1.0
        result[place] = (x - np.mean(compared)) / deviation if deviation > 1e-6 else 0 * x
    return result


def kl_to_base(base, team, turn):
    """log pi_old - log pi_ref of each token."""
    reference, _ = logprobs(base, None, turn.action, team.sampling)
    return turn.action.logprobs - reference.detach().numpy()


def advantages(name, team, trajectories, agent, settings):
    """Return (episode, k) -> one advantage per decision of an agent's turns."""
    base = team.local_agent(agent).base
    along = {"mappo": along_rounds, "happo": along_rounds, "a2po": along_rounds, "ippo": along_own_turns}
    along |= dict.fromkeys(("marft-a", "ppo-a"), along_the_chain)
    along |= dict.fromkeys(("marft-t", "ppo-t", "vapo"), along_tokens)
    found, groups = {}, {}
    for e, k, turn in acted(trajectories, agent):
        trajectory, length = trajectories[e], len(turn.action.token_ids)
        number = 1 if name in PER_ACTION else length
        if name in along:
            found[e, k] = np.zeros(number) + along[name](trajectory, k, settings)
        elif name in ("at-grpo", "c3"):
            found[e, k] = np.zeros(number) + sum(t.reward for t in trajectory.turns[k:])
            groups[e, k] = trajectory.group, turn.round
        else:
            found[e, k] = np.zeros(number) + sum(t.reward for t in trajectory.turns)
            groups[e, k] = trajectory.group
        if name == "dapo":  # 0 up to 0.8 of the limit, -1 at the limit
            limit = team.sampling.max_new_tokens
            found[e, k] += min(0, (0.8 * limit - length) / (0.2 * limit))
        if name == "reinforce++":
            kl = kl_to_base(base, team, turn)
            found[e, k] -= settings.kl_weight * np.array([kl[t:].sum() for t in range(length)])
    if name in along or name == "reinforce++":
        return standardised(found)
    return against_group(found, groups, others=name in ("rloo", "c3"), spread=name not in ("rloo", "c3", "dr-grpo"))


def naive_gradient(name, team, trajectories, policy, settings):
    """Return d loss / d adapter of the first pass."""
    base = team.local_agent(team.policies[policy][0]).base
    clip = (1 - settings.clip_low, 1 + settings.clip_high)
    losses, penalties, praised = [], [], []
    for agent in team.policies[policy]:
        found = advantages(name, team, trajectories, agent, settings)
        for e, k, turn in acted(trajectories, agent):
            new, _ = logprobs(base, policy, turn.action, team.sampling)
            log_ratio, off_policy = new - torch.as_tensor(turn.action.logprobs), torch.zeros(len(new))
            if not turn.action.exact:  # the first pass starts from the model's own log-probs
                log_ratio, off_policy = new - new.detach(), log_ratio.detach()
            if name in PER_ACTION:
                log_ratio = log_ratio.mean()[None] if name == "gspo" else log_ratio.sum()[None]
                off_policy = off_policy.sum()[None]
            weight = off_policy.exp().clamp(max=settings.importance_cap)
            ratio, advantage = log_ratio.exp(), torch.as_tensor(found[e, k], dtype=torch.float32)
            losses.append(-weight * torch.minimum(ratio * advantage, ratio.clamp(*clip) * advantage))
            if name == "grpo":
                reference, _ = logprobs(base, None, turn.action, team.sampling)
                off = reference.detach() - new
                penalties.append(weight * (off.exp() - off - 1))
            if sum(t.reward for t in trajectories[e].turns) > 0:
                praised.append(-new)
    if name in ("grpo", "at-grpo"):  # 1/G sum_i 1/|o_i| sum_t
        loss = torch.stack([x.mean() for x in losses]).mean()
    elif name == "dr-grpo":
        loss = torch.stack([x.sum() / team.sampling.max_new_tokens for x in losses]).mean()
    else:
        loss = torch.cat(losses).mean()
    if name == "grpo":
        assert math.isclose(settings.kl_weight, 0.04)
        loss = loss + 0.04 * torch.stack([x.mean() for x in penalties]).mean()
    if name == "vapo":
        loss = loss + 0.1 * torch.cat(praised).mean()
    with base.active_adapter(policy):
        tensors = base.parameters(policy)
        return dict(zip(tensors, torch.autograd.grad(loss, list(tensors.values())), strict=True))
