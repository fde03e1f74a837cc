"""Data flow of the MARFT reference code at action level, reimplemented from its description.

Each agent has its own copy of the model, and so has the critic. Prompts of a batch are padded to the longest, answers
to the cap. After a rollout, the critic runs on every prompt, and two passes compute full float32 logits for the
log-probs. The result of one of them is not used.

An update repeats the same two passes, with a gradient through one of them. The logits of the answers are copied into a
dense tensor of shape [episodes, agents, cap, vocabulary]. The log-softmax covers the whole tensor. The entropy is that
of `torch.distributions.Categorical`. The batch is processed in chunks of episodes (the reference's gradient_cp_steps).
There is one pass over the batch, as in all contenders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from benchmarks.training.hf_generate import lora_model, pad_left, touch
from benchmarks.training.workload import END_TOKEN, RecordedTurn, Workload

CHUNK = 8  # answers in memory at a time: those of all agents in some episodes
CLIP = 0.2
ENTROPY_BONUS = 0.01


class Critic(nn.Module):
    """Value function: a frozen copy of the model and a three-layer head on its last hidden state.

    Args:
        folder: Folder of the model.
    """

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM

        super().__init__()
        self.model: Any = touch(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32))
        self.model.requires_grad_(False)
        width = self.model.config.hidden_size
        self.head = nn.Sequential(
            nn.Linear(width, 1024, bias=False), nn.ReLU(),
            nn.Linear(1024, 512, bias=False), nn.ReLU(),
            nn.Linear(512, 1, bias=False),
        )  # fmt: skip

    def forward(self, turns: Sequence[RecordedTurn]) -> Tensor:
        """Return the values [B] of the agents' observations."""
        tokens, mask = pad_left([turn.prompt_ids for turn in turns])
        with torch.no_grad():
            found = self.model(tokens, attention_mask=mask, use_cache=False, output_hidden_states=True)
        values: Tensor = self.head(found.hidden_states[-1][:, -1]).squeeze(-1)
        return values


class Reference:
    """Policies, critic and optimizers of a team."""

    def __init__(self, workload: Workload) -> None:
        torch.manual_seed(0)
        self.workload = workload
        self.models = [lora_model(workload.model) for _ in workload.agents]
        for model in self.models:
            model.base_model.model.enable_input_require_grads()
        self.critic = Critic(workload.model)
        self.stages = [workload.of(agent) for agent in workload.agents]
        self.rewards = torch.tensor(workload.rewards)
        self.policies = [
            torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-6, eps=1e-5, weight_decay=0)
            for model in self.models
        ]
        self.valuer = torch.optim.Adam(self.critic.head.parameters(), lr=1e-5, eps=1e-5)
        self.old: Tensor | None = None
        self.values = torch.zeros(len(self.rewards), len(self.models))

    @torch.no_grad()
    def score(self) -> None:
        """Compute values and old log-probs of all turns, as after generation in a rollout."""
        self.values = torch.stack([self.critic(stage) for stage in self.stages], dim=1)
        self.old = self.logprobs(range(len(self.rewards)))[0]

    def update(self) -> None:
        """Update the value head, then every agent's adapter; without a previous `score`, the ratios are 1."""
        episodes = range(len(self.rewards))
        size = max(1, CHUNK // len(self.models))
        chunks = [episodes[start : start + size] for start in range(0, len(episodes), size)]
        advantages = self.rewards[:, None] - self.values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        self.valuer.zero_grad()
        for chunk in chunks:
            values = torch.stack([self.critic([stage[e] for e in chunk]) for stage in self.stages], dim=1)
            error = nn.functional.huber_loss(values, self.rewards[chunk, None].expand_as(values), delta=10.0)
            (error * len(chunk) / len(episodes)).backward()
        nn.utils.clip_grad_norm_(self.critic.head.parameters(), 0.5)
        self.valuer.step()
        for optimizer in self.policies:
            optimizer.zero_grad()
        for chunk in chunks:
            new, entropy = self.logprobs(chunk)
            old = new.detach() if self.old is None else self.old[chunk]
            ratio, gain = (new - old).exp(), advantages[chunk]
            worst = torch.max(-ratio * gain, -ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
            loss = worst.mean() - ENTROPY_BONUS * entropy.mean()
            (loss * len(chunk) / len(episodes)).backward()
        for model, optimizer in zip(self.models, self.policies, strict=True):
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()

    def logprobs(self, episodes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return log-probs of whole answers and mean entropies per token, both [episodes, agents]."""
        turns = [[stage[e] for e in episodes] for stage in self.stages]
        logits = torch.stack([self._logits(m, own) for m, own in zip(self.models, turns, strict=True)], dim=1)
        every = logits.log_softmax(-1)  # [episodes, agents, cap, V]
        sums, entropies = [], []
        for row in range(len(episodes)):
            for agent, own in enumerate(turns):
                answer = torch.tensor(own[row].token_ids)
                sums.append(every[row, agent, : len(answer)].gather(-1, answer[:, None]).sum())
                entropies.append(Categorical(logits=logits[row, agent, : len(answer)]).entropy().mean())
        shape = (len(episodes), len(turns))
        return torch.stack(sums).view(shape), torch.stack(entropies).view(shape)

    def _logits(self, model: Any, turns: Sequence[RecordedTurn]) -> Tensor:
        """Return the logits of the answers [B, cap, V], zero after the end of an answer."""
        prompts, mask = pad_left([turn.prompt_ids for turn in turns])
        cap = self.workload.cap
        answers = torch.tensor([[*turn.token_ids, *[END_TOKEN] * (cap - len(turn.token_ids))] for turn in turns])
        lengths = [len(turn.token_ids) for turn in turns]
        real = torch.arange(cap) < torch.tensor(lengths)[:, None]
        inputs = {
            "input_ids": torch.cat([prompts, answers], dim=1),
            "attention_mask": torch.cat([mask, real.long()], dim=1),
            "use_cache": False,
        }
        with torch.no_grad():  # the reference's "behaviour" policy is the same model; its result is not used
            _dense(model(**inputs).logits, prompts.shape[1], lengths, cap)
        return _dense(model(**inputs).logits, prompts.shape[1], lengths, cap)


def _dense(logits: Tensor, prompt: int, lengths: Sequence[int], cap: int) -> Tensor:
    found = torch.zeros(len(logits), cap, logits.shape[-1])
    for row, length in enumerate(lengths):
        found[row, :length] = logits[row, prompt - 1 : prompt - 1 + length].clone()
    return found


def load(workload: Workload) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the models; return the phases by name."""
    team = Reference(workload)
    return {"score": team.score, "update": team.update}
