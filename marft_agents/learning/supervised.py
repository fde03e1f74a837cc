r"""Supervised fine-tuning of every agent's adapter on its own recorded turns.

The loss of a policy is the mean negative log-likelihood of the tokens of its agents' actions, each under the prompt
that the agent saw and under the sampling parameters of the team, with no gradient on prompts:

.. math::
    L = -\frac{1}{T} \sum_{i} \sum_{j} \log \pi(w^{i,j} \mid \hat o^i, w^{i,<j})

Forward passes, adapters, optimizers and checkpoints are those of the learner. It has no critic here, so no value head
is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.token_sampling import scale
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.learner import Learner
from marft_agents.metric_names import metric_prefix
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.chat_template import control_symbols, disarm, end_of_turn_id
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.token_log_probs import action_hidden, by_rows
from marft_agents.trajectory import Action


class Fit(NamedTuple):
    """Fit of a policy to some actions.

    Attributes:
        nll: Mean negative log-likelihood of their tokens, nats.
        token_accuracy: Share of the tokens that are the most likely ones.
    """

    nll: float
    token_accuracy: float


def demonstration(team: LanguageModelTeam, agent: str, observation: str, text: str, *, ended: bool = True) -> Action:
    """Return a text as the action of an agent, with the tokens that the agent would have sampled to say it.

    Special tokens spelled out in the text are broken up, as in prompts. Log-probs are 0: nobody sampled the tokens.

    Args:
        team: Team that encodes prompts.
        agent: Agent that acts.
        observation: Its observation, with an optional chat form.
        text: Text of the action.
        ended: True appends the end token; False for an action that a limit cut.

    Raises:
        ContextOverflowError: The prompt does not fit, see `LanguageModelTeam.prompt`.
        ValueError: The action has no tokens.
    """
    base = team.local_agent(agent).base
    prompt = team.prompt(agent, observation)
    disarmed = disarm(text, control_symbols(base.tokenizer))
    ids: list[int] = list(base.tokenizer(disarmed, add_special_tokens=False)["input_ids"])
    if ended:
        ids.append(end_of_turn_id(base.tokenizer, base.end_ids))
    if not ids:
        raise ValueError(f"{agent}: an action that is empty and did not end has no tokens to imitate")
    action = base.action(prompt.ids, ids, [0.0] * len(ids), exact=False)
    return replace(action, shortened=prompt.shortened)


class SupervisedLearner(Learner):
    """Learner whose updates imitate actions; see `Learner` for its arguments.

    The settings give step size, schedule, gradient clipping and micro-batches. An update is one optimizer step of each
    policy.
    """

    def imitate(self, actions: Mapping[str, Sequence[Action]]) -> dict[str, float]:
        """Make one optimizer step of each policy on its actions.

        Args:
            actions: Actions by policy; a policy without actions is left as it is.

        Returns:
            `{policy}/nll` and `token_accuracy` before the step, `grad_norm` and `tokens_mean`.

        Raises:
            DivergenceError: A loss or gradient is not finite.
            SettingsError: One sequence alone does not fit into the memory of the device.
        """
        return self._with_room(self.snapshot(), lambda: self._imitate(actions))

    def _imitate(self, actions: Mapping[str, Sequence[Action]]) -> dict[str, float]:
        """Make the optimizer steps of `imitate`; out of memory, the caller restores the weights and repeats."""
        metrics: dict[str, float] = {}
        for policy, own in actions.items():
            if not own:
                continue
            optimizer, parameters = self.optimizers[policy], list(self._base(policy).parameters(policy).values())
            for group in optimizer.param_groups:
                group["lr"] = self.settings.policy_lr * self._lr_factor()
            optimizer.zero_grad(set_to_none=True)  # of an attempt that ran out of memory
            fit = self._passes(policy, own, gradient=True)
            norm = nn.utils.clip_grad_norm_(parameters, self.settings.max_grad_norm)
            if not torch.isfinite(norm):
                raise DivergenceError(f"policy {policy!r}: the gradient is {norm.item()}: lower policy_lr")
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)  # frees the memory for the next policy
            prefix = metric_prefix(policy)
            metrics[f"{prefix}/nll"] = fit.nll
            metrics[f"{prefix}/token_accuracy"] = fit.token_accuracy
            metrics[f"{prefix}/grad_norm"] = norm.item()
            metrics[f"{prefix}/tokens_mean"] = sum(len(action.token_ids) for action in own) / len(own)
        self.updates += 1
        return metrics

    def measure(self, actions: Mapping[str, Sequence[Action]]) -> dict[str, Fit]:
        """Return the fit of each policy to its actions; policies without actions are left out."""
        with torch.no_grad():
            return {policy: self._passes(policy, own, gradient=False) for policy, own in actions.items() if own}

    def _passes(self, policy: str, actions: Sequence[Action], *, gradient: bool) -> Fit:
        """Run all forward passes of some actions, and add their gradients."""
        base, sampling = self._base(policy), self.scorer.sampling
        total = sum(len(action.token_ids) for action in actions)
        nll = correct = 0.0
        for part in self.scorer.micro_batches(actions):
            logprobs, hits = score_demonstrations(base, policy, [actions[i] for i in part], sampling)
            loss = -logprobs.sum() / total  # the parts add up to the mean over the tokens of all actions
            if not torch.isfinite(loss):
                raise DivergenceError(f"policy {policy!r}: the loss is {loss.item()}: lower policy_lr")
            if gradient:
                base.backward(loss)
            nll += loss.item()
            correct += hits.sum().item()
        return Fit(nll, correct / total)


def score_demonstrations(
    base: AdaptedBase, adapter: str, actions: Sequence[Action], sampling: SamplingParams
) -> tuple[Tensor, Tensor]:
    """Return log-probs of the tokens of actions, and 1 where a token is the most likely one.

    Args:
        base: Base model that holds the adapter.
        adapter: Name of the active adapter.
        actions: Actions of one forward pass, with T tokens in all.
        sampling: Sampling parameters; the temperature scales the logits. No support: any token may be imitated.

    Returns:
        Float32 [T] with its graph, and float32 [T].
    """
    prompts, said = [action.prompt_ids for action in actions], [action.token_ids for action in actions]
    tokens = torch.cat([torch.as_tensor(ids, dtype=torch.long) for ids in said]).to(base.device)  # [T]

    def score_rows(part: slice, states: Tensor) -> tuple[Tensor, Tensor]:
        logits = scale(base.head(states), sampling)  # [rows, V]
        chosen = logits.gather(-1, tokens[part, None]).squeeze(-1)  # [rows]
        return chosen - logits.logsumexp(-1), (chosen >= logits.amax(-1)).detach().float()

    with base.active_adapter(adapter):
        return by_rows(base.head, action_hidden(base.trunk, prompts, said, base.device), score_rows)
