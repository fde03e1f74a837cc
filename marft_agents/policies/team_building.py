"""Build a team: load its base models and partners, create its adapters; refuse before that what cannot run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch

from marft_agents.generation.engine_settings import ROWS, EngineSettings
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import Dtype, LoraSettings, Sharing
from marft_agents.models.context_window import ContextSettings, choose_window
from marft_agents.models.packed_linear import pack
from marft_agents.models.pretrained import context_length, default_device, dtype_on, load, load_config, load_tokenizer
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent, check_agent_ids, encode_for
from marft_agents.policies.partners import RemoteSettings, check_partners, models_of, open_partner
from marft_agents.setting_fields import SettingsError

SHARED_ADAPTER = "shared"
UNUSED_ADAPTER = "frozen"  # of a base that only frozen agents play: PEFT wants at least one

Devices = torch.device | Mapping[str, torch.device] | None


def build_team(
    agents: Sequence[str],
    models: Mapping[str, str],
    *,
    lora: LoraSettings,
    sampling: SamplingParams,
    sharing: Sharing = "separate",
    seed: int = 0,
    device: Devices = None,
    dtype: Dtype = "auto",
    context: ContextSettings | None = None,
    remote: RemoteSettings | None = None,
    engine: EngineSettings | None = None,
    in_host_memory: bool = False,
) -> LanguageModelTeam:
    """Load the base models and create the adapter of each trained agent.

    Args:
        agents: Agent ids in the order of the team.
        models: Agent -> model name (see `partners` and `pretrained.load`). Agents of one local model on one device
            share it in memory. The key "*" stands for all others.
        lora: Rank, scale and target layers of the adapters.
        sampling: Sampling parameters of all agents.
        sharing: "separate" for one adapter per agent, "shared" for one for all agents of a base.
        seed: Seed of the adapters' initial weights.
        device: Device of the bases, or agent -> device of its base, with "*" for all others. None, and agents that
            are not named, take CUDA if available, else the CPU.
        dtype: Dtype of the frozen bases; "auto" is bfloat16 on CUDA and float32 on the CPU. Adapters are float32.
        context: Length limit of a prompt with its action, and the treatment of longer prompts.
        remote: Limits of requests to remote agents.
        engine: Engine of decoding and its sizes.
        in_host_memory: True loads the bases into host memory, in the dtype of their device, for
            `learning.sharding.shard`, which moves them there.

    Raises:
        ModelError: A model cannot be loaded, an agent has no model, or an agent's id is not text.
        SettingsError: The context window does not fit a model, an unknown or remote agent has a device, or agents of
            one shared adapter have several, or no such dtype or sharing; found before any weights are loaded.
        RemoteError: A package for a remote agent is missing, or it does not know the sampling parameters.
    """
    check_agent_ids(agents)
    if sharing not in get_args(Sharing):
        raise SettingsError(f"sharing = {sharing!r}, wanted {' or '.join(get_args(Sharing))}")
    chosen = models_of(agents, models)
    placed = _devices_of([agent for agent, model in chosen.items() if model.local], device)
    members: dict[tuple[str, torch.device], list[str]] = {}
    for agent, place in placed.items():
        members.setdefault((chosen[agent].source, place), []).append(agent)
    names = [name for name, _ in members]
    if sharing == "shared" and len(set(names)) < len(names):
        raise SettingsError("device: found several for agents that share one adapter, wanted one for all")
    dtypes = {place: dtype_on(place, dtype) for _, place in members}
    engine = engine_for(agents, models, sampling, device, dtype, context, engine)
    partners = {agent: open_partner(model, sampling, remote) for agent, model in chosen.items() if not model.local}
    local_agents: dict[str, LocalAgent] = {}
    for number, ((name, place), own) in enumerate(members.items()):
        trained = [agent for agent in own if not chosen[agent].kind]
        shared = SHARED_ADAPTER if len(members) == 1 else f"{SHARED_ADAPTER}_{number}"
        adapters = [shared] if sharing == "shared" and trained else trained
        loaded = load(name, device=torch.device("cpu") if in_host_memory else place, dtype=dtypes[place])
        if not in_host_memory:
            pack(loaded.model)  # before there are adapters: PEFT freezes all but the first
        base = AdaptedBase(loaded, adapters or [UNUSED_ADAPTER], lora, seed=seed)
        base.device = place
        for agent in own:
            adapter = shared if sharing == "shared" else agent
            local_agents[agent] = LocalAgent(base, adapter if agent in trained else None)
    order = {agent: local_agents[agent] for agent in agents if agent in local_agents}
    return LanguageModelTeam(
        order,
        sampling,
        context=context,
        max_batch=engine.max_batch or ROWS["cpu"],
        engine=engine,
        partners=partners,
        agents=agents,
    )


def engine_for(
    agents: Sequence[str],
    models: Mapping[str, str],
    sampling: SamplingParams,
    device: Devices = None,
    dtype: Dtype = "auto",
    context: ContextSettings | None = None,
    engine: EngineSettings | None = None,
) -> EngineSettings:
    """Return the engine of a team with its sizes, before any weights are loaded; arguments as of `build_team`.

    Raises:
        ModelError, SettingsError: See `build_team`.
    """
    chosen, engine = models_of(agents, models), engine or EngineSettings()
    placed = _devices_of([agent for agent, model in chosen.items() if model.local], device)
    windows, bases = [0], []
    for agent, place in placed.items():
        name = chosen[agent].source
        config = load_config(name)
        longest = context_length(config)
        windows.append(choose_window(name, longest, context or ContextSettings(), sampling.max_new_tokens))
        bases.append((config, dtype_on(place, dtype)))
    return engine.resolved(next(iter(placed.values())), bases, max(windows)) if placed else engine


def _devices_of(agents: Sequence[str], device: Devices) -> dict[str, torch.device]:
    """Return the device of each agent that plays a local model."""
    given = device if isinstance(device, Mapping) else {} if device is None else {"*": device}
    unknown = sorted(set(given) - set(agents) - {"*"})
    if unknown:
        raise SettingsError(
            f"device: found {', '.join(unknown)}, wanted agents that play a local model: {', '.join(agents)}"
        )
    others = given.get("*") or default_device()
    return {agent: _numbered(given.get(agent, others)) for agent in agents}


def _numbered(device: torch.device) -> torch.device:
    """Return a GPU with its number, so that `cuda` and `cuda:0` are one device."""
    return torch.device("cuda", torch.cuda.current_device()) if device == torch.device("cuda") else device


def check_first_prompts(
    env: Any, models: Mapping[str, str], sampling: SamplingParams, context: ContextSettings
) -> None:
    """Refuse remote agents that do not answer, and profiles that leave no room, before any weights are loaded.

    Args:
        env: An AEC environment; it is reset. Agents without an observation yet are skipped.
        models: Agent -> model name, as in `build_team`.
        sampling: Sampling parameters of all agents.
        context: Length limit of a prompt with its action, and the treatment of longer prompts.

    Raises:
        ContextOverflowError: An agent's observation of the first problem does not fit.
        RemoteError: A remote agent does not answer.
        ModelError, SettingsError: See `build_team`.
    """
    chosen = models_of(env.possible_agents, models)
    check_partners(models, sampling)
    env.reset(seed=0)
    readers: dict[str, tuple[Any, int]] = {}  # model name -> its tokenizer and window
    for agent, model in chosen.items():
        if not model.local:
            continue
        name = model.source
        if name not in readers:
            window = choose_window(name, context_length(load_config(name)), context, sampling.max_new_tokens)
            readers[name] = load_tokenizer(name), window
        try:
            observation = env.observe(agent)
        except Exception:  # environments may raise anything for an agent that does not act yet
            continue
        if isinstance(observation, str):
            tokenizer, window = readers[name]
            encode_for(agent, tokenizer, observation, window, sampling, context)
