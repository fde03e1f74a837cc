"""Team of language-model agents: frozen base models, one LoRA adapter per agent (or one shared by all).

N agents on one base need the memory of one base. Only the adapters (float32) are trained, each by its own optimizer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from marft_agents.generation.continuous_batching import Prompt, generate
from marft_agents.generation.engine_settings import EngineName, EngineSettings, bytes_of_token
from marft_agents.generation.prompt_cache import PromptCache, PromptCacheUse
from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.step_engine import StepEngine
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.chat_template import ChatPrompt, encode, messages_of
from marft_agents.models.context_window import ContextOverflowError, ContextSettings, choose_window
from marft_agents.models.model_error import ModelError
from marft_agents.models.pretrained import context_length
from marft_agents.policies.action_scores import (
    ActionScores,
    TokenIds,
    checked_actions,
    local_model,
    refuse_open_sessions,
    trained_adapter,
)
from marft_agents.policies.partners import (
    Partner,
)
from marft_agents.policies.policy import FunctionPolicy, Policy, Request, encodable, failed_action
from marft_agents.policies.scripted import MixedPolicy
from marft_agents.policies.team_session import TeamSession
from marft_agents.policies.token_log_probs import ONE_TOKEN, action_hidden, score_pass
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Action, IntArray

PROMPTS_KEPT = 512  # encoded prompts of a team, more than begin in one batch


@dataclass(frozen=True)
class LocalAgent:
    """Agent that is played in this process, by a base model and an adapter.

    Attributes:
        base: The base model with its adapters.
        adapter: Name of the agent's adapter on that base; None for a frozen agent that plays the bare base.
    """

    base: AdaptedBase
    adapter: str | None


class LanguageModelTeam:
    """Policies of all agents of a team.

    Args:
        local_agents: Agent -> its base model and adapter.
        sampling: Sampling parameters of all agents.
        context: Length limit of a prompt with its action, and the treatment of longer prompts.
        max_batch: Largest number of actions generated at once.
        engine: Engine of decoding, and the memory of its KV cache; 0 there means any.
        partners: Agent -> policy, for remote agents of the team.
        agents: All agents in the order of the team; empty: those of `local_agents`, then those of `partners`.

    Attributes:
        prompt_cache_use: Prompt tokens of its sessions, and those that were known from earlier turns.
        windows: Agent -> context window in tokens, for a prompt and its action together.

    Raises:
        ModelError: An agent's id is not text, or adapters on different bases have the same name. Trained policies are
            identified by adapter name.
        SettingsError: The window is longer than a base's own, or has no room for a prompt beside `max_new_tokens`.
    """

    def __init__(
        self,
        local_agents: Mapping[str, LocalAgent],
        sampling: SamplingParams,
        *,
        context: ContextSettings | None = None,
        max_batch: int = 128,
        engine: EngineSettings | None = None,
        partners: Mapping[str, Partner] | None = None,
        agents: Sequence[str] = (),
    ) -> None:
        self.local_agents = dict(local_agents)
        self.partners = dict(partners or {})
        self.agents = tuple(agents or [*self.local_agents, *self.partners])
        check_agent_ids(self.agents)
        _check_adapter_names(self.local_agents)
        self.sampling = sampling
        self.context = context or ContextSettings()
        self.max_batch, self.engine = max_batch, engine or EngineSettings()
        self.prompt_cache_use = PromptCacheUse()
        self._engines: dict[tuple[AdaptedBase, int], StepEngine] = {}
        self._prompts: dict[Hashable, ChatPrompt] = {}  # the episodes of a group begin with equal prompts
        self.windows = {
            agent: choose_window(
                local.base.name, context_length(local.base.peft.config), self.context, sampling.max_new_tokens
            )
            for agent, local in self.local_agents.items()
        }

    @property
    def bases(self) -> list[AdaptedBase]:
        """Distinct base models, in the order of the team."""
        return list({id(local.base): local.base for local in self.local_agents.values()}.values())

    @property
    def policies(self) -> dict[str, list[str]]:
        """Trainable policies: policy name -> agents that play it (several if they share an adapter)."""
        grouped: dict[str, list[str]] = {}
        for agent, local in self.local_agents.items():
            if local.adapter is not None:
                grouped.setdefault(local.adapter, []).append(agent)
        return grouped

    @property
    def learners(self) -> list[str]:
        """Agents that are trained."""
        return [agent for members in self.policies.values() for agent in members]

    @property
    def caches(self) -> dict[str, tuple[str, str | None]]:
        """Agent -> base and adapter that it plays; agents of equal ones could share a KV cache."""
        return {agent: (local.base.name, local.adapter) for agent, local in self.local_agents.items()}

    def local_agent(self, agent: str) -> LocalAgent:
        """Return an agent's base and adapter, or raise a KeyError that lists the team's agents."""
        if agent not in self.local_agents:
            raise KeyError(f"no policy for agent {agent!r}; this team plays {', '.join(self.local_agents)}")
        return self.local_agents[agent]

    def prompt(self, agent: str, observation: str) -> ChatPrompt:
        """Encode an agent's observation as a prompt that leaves room for its action in the context window.

        Raises:
            ContextOverflowError: The prompt does not fit; names the agent, tokens found and wanted.
        """
        conversation = tuple((each["role"], each["content"], each.get("name")) for each in messages_of(observation))
        key = agent, conversation, getattr(observation, "fixed_messages", None)
        found = self._prompts.get(key)
        if found is None:
            tokenizer = self.local_agent(agent).base.tokenizer
            found = encode_for(agent, tokenizer, observation, self.windows[agent], self.sampling, self.context)
            if len(self._prompts) >= PROMPTS_KEPT:
                self._prompts.clear()
            self._prompts[key] = found
        return found

    def encode(self, agent: str, observation: str) -> IntArray:
        """Return the token ids of an agent's prompt, int32 [P]; see `prompt`."""
        return self.prompt(agent, observation).ids

    def under(self, sampling: SamplingParams) -> LanguageModelTeam:
        """Return the same policies with other sampling parameters, for evaluation."""
        partners = {agent: partner.under(sampling) for agent, partner in self.partners.items()}
        return self._like(self.local_agents, sampling, partners, self.agents)

    def with_local_agents(self, local_agents: Mapping[str, LocalAgent]) -> LanguageModelTeam:
        """Return the team with other bases or adapters of its local agents."""
        return self._like(local_agents, self.sampling, self.partners, self.agents)

    def renamed(self, old_names: Mapping[str, str]) -> LanguageModelTeam:
        """Return the team under other agent ids.

        Args:
            old_names: New id of each agent -> its present id.
        """
        return self._like(
            {new: self.local_agents[old] for new, old in old_names.items() if old in self.local_agents},
            self.sampling,
            {new: self.partners[old] for new, old in old_names.items() if old in self.partners},
            tuple(old_names),
        )

    def _like(
        self,
        local_agents: Mapping[str, LocalAgent],
        sampling: SamplingParams,
        partners: Mapping[str, Partner],
        agents: Sequence[str],
    ) -> LanguageModelTeam:
        """Return another team with the same settings and the same engines."""
        made = LanguageModelTeam(
            local_agents,
            sampling,
            context=self.context,
            max_batch=self.max_batch,
            engine=self.engine,
            partners=partners,
            agents=agents,
        )
        made._engines = self._engines
        return made

    def close(self) -> None:
        """Close the connections to remote agents."""
        for partner in self.partners.values():
            partner.close()

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Sample one action per request; requests of one base share a batch, even with different adapters.

        A prompt that cannot be shortened enough results in an action with a failure.

        Raises:
            ContextOverflowError: A prompt is too long, and `overflow` is "error".
        """
        return self.answer(requests, self.generate)

    def score(
        self,
        agent: str,
        prompts: Sequence[TokenIds],
        actions: Sequence[Action | TokenIds],
        *,
        entropy_gradient: bool = True,
        reference: bool = False,
    ) -> ActionScores:
        """Compute log-probs and entropies of an agent's actions, with gradient: the learner's own forward pass.

        It is one pass, in which equal beginnings are computed once: cut large batches, and call `backward` for each.
        Several scores may enter one loss, also those of different agents. Beside a coarser base on CUDA, products of
        the backward pass are faster after `torch.set_float32_matmul_precision("high")`.

        Args:
            agent: Agent with a local model.
            prompts: Token ids of each prompt, [P_i], such as `Action.prompt_ids`, or `encode` of an observation.
            actions: Sampled actions, or their token ids, [T_i], the end token included. Top-k and top-p need actions.
            entropy_gradient: False saves the gradient of the entropy, which a loss without entropy does not need.
            reference: True for the base without adapter, for a KL penalty; these log-probs have no gradient.

        Raises:
            ModelError: The agent plays no local model, or has no adapter that a gradient could train.
            SettingsError: The team samples greedily.
            ContextOverflowError: A prompt with its action is longer than the context window.
            ValueError: Prompts and actions are not as many, or their ids are not those of the agent's tokenizer.
            RuntimeError: A gradient is asked for while a generation session is open.
        """
        local = local_model(self, agent)
        if self.sampling.greedy:
            raise SettingsError(
                "temperature = 0, wanted > 0: a greedy policy gives its action the probability 1, so there is no "
                "log-prob to train on; use team.under(SamplingParams(temperature=1.0))"
            )
        if torch.is_grad_enabled() and not reference:
            trained_adapter(self, agent)
            refuse_open_sessions(local.base)
        records = checked_actions(self, agent, prompts, actions)
        adapter = None if reference else local.adapter
        with torch.set_grad_enabled(torch.is_grad_enabled() and adapter is not None):
            found = score_pass(local.base, adapter, records, self.sampling, entropy_gradient=entropy_gradient)
        for tensor in (found.logprobs, found.entropy):
            if tensor.requires_grad:
                # Another adapter may be active when the backward pass comes here. PEFT would drop the gradient of this
                # one, and layers that are computed again would apply the other.
                tensor.register_hook(partial(_activate, local))
        return ActionScores(found.logprobs, found.entropy, tuple(len(record.token_ids) for record in records))

    def features(
        self, agent: str, prompts: Sequence[TokenIds], actions: Sequence[Action | TokenIds] | None = None
    ) -> Tensor:
        """Return what the learner's value heads read: last hidden states of the base without adapter, no gradient.

        Args:
            agent: Agent with a local model.
            prompts: Token ids of each prompt, [P_i], see `score`.
            actions: None for the state before each action; else actions, for the state before each of their tokens.

        Returns:
            Float32 [N, d]: one row for each prompt, or for each token of the actions, action by action.

        Raises:
            ModelError, ContextOverflowError, ValueError: See `score`.
        """
        base = local_model(self, agent).base
        records = checked_actions(self, agent, prompts, [ONE_TOKEN] * len(prompts) if actions is None else actions)
        with torch.no_grad(), base.active_adapter(None):
            hidden = action_hidden(
                base.trunk, [one.prompt_ids for one in records], [one.token_ids for one in records], base.device
            )
        return hidden.float()

    def parameters(self, agent: str) -> list[nn.Parameter]:
        """Return the float32 parameters of an agent's adapter; agents that share an adapter have the same ones.

        Raises:
            ModelError: The agent plays no local model, or has no adapter.
        """
        base, adapter = trained_adapter(self, agent)
        return list(base.parameters(adapter).values())

    def open_session(self) -> Policy:
        """Return the team for some episodes: it keeps prompts, and answers while it samples if all agents are local."""
        session = TeamSession(self)
        return FunctionPolicy(session.act) if self.partners else session

    def answer(
        self, requests: Sequence[Request], sample: Callable[[Sequence[Request], Sequence[IntArray]], list[Action]]
    ) -> list[Action]:
        """Encode requests, sample those whose prompts fit, and record shortened messages; ask remote agents.

        Args:
            requests: Turns that wait for an action.
            sample: Maps requests and their prompt ids to one action each; this team's own generation or another engine.
        """
        if not self.partners:
            return self._answer_local(requests, sample)
        own = FunctionPolicy(partial(self._answer_local, sample=sample))
        everyone: dict[str, Policy] = {**dict.fromkeys(self.local_agents, own), **self.partners}
        return MixedPolicy(everyone).act(requests)

    def _answer_local(
        self, requests: Sequence[Request], sample: Callable[[Sequence[Request], Sequence[IntArray]], list[Action]]
    ) -> list[Action]:
        prompts: dict[int, ChatPrompt] = {}
        actions: dict[int, Action] = {}
        for i, request in enumerate(requests):
            try:
                prompts[i] = self.prompt(request.agent, request.observation)
            except ContextOverflowError as error:
                if self.context.overflow == "error":
                    raise
                actions[i] = failed_action(str(error))
        sampled = sample([requests[i] for i in prompts], [prompt.ids for prompt in prompts.values()]) if prompts else []
        for (i, prompt), whole in zip(prompts.items(), sampled, strict=True):
            request = requests[i]  # another engine samples on beyond its limit
            action = self.local_agent(request.agent).base.cut(whole, request.limit, request.stop)
            actions[i] = replace(action, shortened=prompt.shortened) if prompt.shortened else action
        return [actions[i] for i in range(len(requests))]

    def generate(
        self,
        requests: Sequence[Request],
        prompts: Sequence[IntArray],
        *,
        caches: Mapping[AdaptedBase, PromptCache] = MappingProxyType({}),
    ) -> list[Action]:
        """Sample one action per request; requests of one base share a batch.

        Args:
            requests: Turns that wait for an action.
            prompts: Token ids of each prompt, int32 [P].
            caches: Prompts of earlier turns by base.
        """
        by_base: dict[AdaptedBase, list[int]] = {}
        for i, request in enumerate(requests):
            by_base.setdefault(self.local_agent(request.agent).base, []).append(i)
        actions: dict[int, Action] = {}
        for base, members in by_base.items():
            asked = [
                Prompt(
                    prompts[i],
                    requests[i].generator,
                    self.local_agent(requests[i].agent).adapter,
                    requests[i].limit,
                    requests[i].stop,
                )
                for i in members
            ]
            with self.borrowed_engine(base) as engine:
                answers = generate(base, asked, self.sampling, cache=caches.get(base), engine=engine)
            actions.update(zip(members, answers, strict=True))
        return [actions[i] for i in range(len(requests))]

    @contextlib.contextmanager
    def borrowed_engine(self, base: AdaptedBase) -> Iterator[StepEngine]:
        """Return the engine of a base for a generation.

        One that captures steps is made once and lent to one generation at a time; meanwhile others, such as those of a
        judge, run eagerly. An eager engine gives its memory back.
        """
        engine = self._engine(base)
        if not engine.lock.acquire(blocking=False):
            yield self._made(base, "eager")
            return
        try:
            yield engine
        finally:
            engine.lock.release()

    def engine_limits(self) -> list[str]:
        """Return what the engines of its bases leave out, one line each; none where steps are not captured."""
        limits = (self._engine(base).limits(self.sampling) for base in self.bases)
        return [line for line in limits if line is not None]

    def prompt_cache(self, base: AdaptedBase) -> PromptCache:
        """Return an empty prompt cache, in the memory of the base's engine."""
        return PromptCache(self._engine(base).cache.lend_prompt_memory(), self.prompt_cache_use)

    def _engine(self, base: AdaptedBase) -> StepEngine:
        engine = self._engines.get((base, self.max_batch)) or self._made(base, self.engine.engine)
        return self._engines.setdefault((base, self.max_batch), engine) if engine.captures else engine

    def _made(self, base: AdaptedBase, engine: EngineName) -> StepEngine:
        token, rows = bytes_of_token(base.peft.config, base.dtype), self.engine.rows_bytes
        return StepEngine(
            base,
            max_rows=self.max_batch,
            tokens=None if rows is None else rows // token,
            prompts=self.engine.prompts_bytes // token,
            engine=engine,
        )


def _activate(local: LocalAgent, _: Tensor) -> None:
    with local.base.active_adapter(local.adapter):
        pass  # it stays active


def encode_for(
    agent: str, tokenizer: Any, observation: str, window: int, sampling: SamplingParams, context: ContextSettings
) -> ChatPrompt:
    """Return an agent's prompt that leaves room for its longest action; the error of a longer one names the agent."""
    try:
        return encode(tokenizer, observation, window - sampling.max_new_tokens, context.overflow)
    except ContextOverflowError as error:
        raise ContextOverflowError(
            f"agent {agent!r}: {error} (context_window = {window} less max_new_tokens = {sampling.max_new_tokens}): "
            "raise the window, shorten the profile or the task, or let agents say less"
        ) from error


def check_agent_ids(agents: Sequence[Any]) -> None:
    """Refuse agent ids that UTF-8 files and logs cannot hold."""
    for agent in agents:
        if not isinstance(agent, str) or not encodable(agent):
            raise ModelError(
                f"agent id {agent!r}: wanted text that UTF-8 can encode; rename the agent in its environment"
            )


def _check_adapter_names(local_agents: Mapping[str, LocalAgent]) -> None:
    first: dict[str, tuple[str, LocalAgent]] = {}
    for agent, local in local_agents.items():
        if local.adapter is None:
            continue
        other, place = first.setdefault(local.adapter, (agent, local))
        if place.base is not local.base:
            raise ModelError(
                f"agents {other!r} and {agent!r} play adapter {local.adapter!r} on different bases "
                f"({place.base.name}, {local.base.name}): give each base's adapter a name of its own"
            )
