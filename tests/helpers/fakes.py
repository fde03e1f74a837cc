"""Fakes shared by tests: games that know nothing of this project, and a tiny language model over twenty words.

The games are plain PettingZoo AEC environments with `str` observations in gymnasium Text spaces, as a third party
would write them. Importing this module loads no torch; `word_model` does.
"""

from __future__ import annotations

import copy
import string
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Text
from pettingzoo import AECEnv

ANY_TEXT = Text(max_length=200, min_length=0, charset=string.printable)
WORDS = [*"01234", *"ab", "digit", "heard", "topic", "value", "?"]


class Probe(AECEnv):
    """A one-round game: agents speak in order, the last one's first word is judged, all are paid alike.

    Args:
        mute: speakers hear "?" instead of what was said before them.
    """

    metadata: ClassVar = {"name": "probe", "render_modes": []}
    speakers: tuple[str, ...] = ()

    def __init__(self, mute: bool = False) -> None:
        super().__init__()
        self.mute = mute
        self.render_mode = None
        self.possible_agents = list(self.speakers)

    def observation_space(self, agent):
        return ANY_TEXT

    def action_space(self, agent):
        return ANY_TEXT

    def reset(self, seed=None, options=None):
        self.draw(np.random.default_rng(seed))
        self.agents = list(self.possible_agents)
        self.order = list(self.speakers)
        self.said: dict[str, str] = {}
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.order[0]

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self.said[agent] = (action.split() or ["?"])[0]
        self._clear_rewards()
        following = self.following(agent)
        if following:
            self.agent_selection = following[0]
        else:
            self.rewards = dict.fromkeys(self.agents, float(self.said[agent] == self.answer))
            self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[0]
        self._accumulate_rewards()

    def following(self, agent: str) -> list[str]:
        """Return who speaks after an agent."""
        return self.order[self.order.index(agent) + 1 :]

    def heard(self, agent: str) -> str:
        word = self.said.get(agent, "?")
        return "?" if self.mute or word not in WORDS else word

    def close(self):
        pass

    def draw(self, rng: np.random.Generator) -> None:
        raise NotImplementedError


class CopyDigit(Probe):
    """`speaker_0` sees one of three digits; `actor_0` hears only what it says and must answer the digit."""

    chance = 1 / 3
    speakers = ("speaker_0", "actor_0")

    def draw(self, rng):
        self.answer = str(rng.integers(3))

    def observe(self, agent):
        return f"digit {self.answer}" if agent == "speaker_0" else f"heard {self.heard('speaker_0')}"


class RelayDigit(Probe):
    """`agent_0` sees one of three digits; the others hear only who spoke before them; `agent_2` answers the digit."""

    chance = 1 / 3
    speakers = ("agent_0", "agent_1", "agent_2")

    def draw(self, rng):
        self.answer = str(rng.integers(3))

    def observe(self, agent):
        place = self.speakers.index(agent)
        return f"heard {self.heard(self.speakers[place - 1])}" if place else f"digit {self.answer}"


class SumDigits(Probe):
    """`left_0` and `right_0` see one digit each, 0 to 2; `right_0` hears `left_0` and answers the sum."""

    chance = 1 / 3
    speakers = ("left_0", "right_0")

    def draw(self, rng):
        self.digits = rng.integers(3, size=2)
        self.answer = str(self.digits.sum())

    def observe(self, agent):
        if agent == "left_0":
            return f"digit {self.digits[0]}"
        return f"digit {self.digits[1]} heard {self.heard('left_0')}"


class RouteToExpert(Probe):
    """`router_0` sees the topic and names the expert who answers; only the topic's expert sees the value.

    Whatever is not "1" names `expert_0`. Naming an expert at random and guessing without the value wins (1 + 1/3) / 2.
    """

    chance = 2 / 3
    speakers = ("router_0", "expert_0", "expert_1")

    def draw(self, rng):
        self.topic, value = rng.integers(2), rng.integers(3)
        self.answer = str(value)

    def observe(self, agent):
        if agent == "router_0":
            return f"topic {'?' if self.mute else 'ab'[self.topic]}"
        return f"value {self.answer if agent == f'expert_{self.topic}' else '?'}"

    def following(self, agent):
        chosen = "expert_1" if self.said.get("router_0") == "1" else "expert_0"
        return [chosen] if agent == "router_0" else []


class Market(AECEnv):
    """A third-party game: two agents, several rounds, the buyer acts twice a round and leaves before the seller.

    A round is buyer, buyer, seller. The buyer terminates after `buyer_rounds`; the seller goes on alone until
    `rounds`, where the game terminates or (`cut`) is truncated. Whoever acts is paid 1 for the word "a" and 0.25
    for any digit; the other gets nothing, so the agents' rewards differ. Nothing is told in infos but "calls",
    an array (not a scalar), and "price".
    """

    metadata: ClassVar = {"name": "market_v0", "render_modes": []}

    def __init__(self, rounds: int = 3, buyer_rounds: int = 2, cut: bool = False) -> None:
        super().__init__()
        self.rounds, self.buyer_rounds, self.cut = rounds, buyer_rounds, cut
        self.possible_agents = ["buyer_0", "seller_0"]
        self.render_mode = None
        self.closed = False

    def observation_space(self, agent):
        return ANY_TEXT

    def action_space(self, agent):
        return ANY_TEXT

    def reset(self, seed=None, options=None):
        self.start = int(np.random.default_rng(seed).integers(5)) + (options or {}).get("offset", 0)
        self.agents = list(self.possible_agents)
        self.log: list[str] = []
        self.plan = [a for r in range(self.rounds) for a in ["buyer_0"] * 2 * (r < self.buyer_rounds) + ["seller_0"]]
        self.turn = 0
        self.agent_selection = self.plan[0]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {"calls": np.zeros(2), "price": float(self.start)} for agent in self.agents}

    def observe(self, agent):
        if agent not in self.agents:
            raise KeyError(f"{agent} has left")
        return f"digit {self.start} heard {' '.join(self.log[-2:]) or '?'}"

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not self.action_space(agent).contains(action):
            raise ValueError(f"not in the action space: {action!r}")
        self._clear_rewards()
        self._cumulative_rewards[agent] = 0.0
        word = (action.split() or ["?"])[0]
        self.log.append(word if word in WORDS else "?")
        self.rewards[agent] = 1.0 if word == "a" else 0.25 if word.isdigit() else 0.0
        self.turn += 1
        if agent not in self.plan[self.turn :]:
            over = self.turn == len(self.plan)
            (self.truncations if over and self.cut else self.terminations)[agent] = True
        if self.turn < len(self.plan):
            self.agent_selection = self.plan[self.turn]
        self._accumulate_rewards()
        self._deads_step_first()

    def close(self):
        self.closed = True


class Broken(Market):
    """A market that raises in the method `where` in every episode whose seed is even."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.wrecked = False

    def _break(self, method: str) -> None:
        if self.wrecked or (self.where == method and self.even):
            self.wrecked = True  # and stays so: a broken environment must not be used again
            raise RuntimeError("the roof fell in")

    def reset(self, seed=None, options=None):
        self.even = seed % 2 == 0
        self._break("reset")
        super().reset(seed, options)

    def observe(self, agent):
        if len(self.log) == 3:
            self._break("observe")
        return super().observe(agent)

    def step(self, action):
        self._break("step" if action is not None else "last step")
        super().step(action)

    def close(self):
        self._break("close")


def word_model(seed: int = 0, *, hidden: int = 48, layers: int = 1, spread: float = 0.15) -> Any:
    """Return a `Pretrained`: a random Llama over `WORDS` with ChatML marks; pad = eos, as in SmolLM2.

    Args:
        seed: of the weights.
        hidden: width d.
        layers: transformer blocks.
        spread: standard deviation of the head's weights: how peaked the untrained policy is.
    """
    from marft_agents.models.pretrained import Pretrained
    from marft_agents.models.random_models import word_level

    words = word_level(WORDS, hidden=hidden, layers=layers, head_std=spread)
    model = words.model(seed)
    model.requires_grad_(False)
    return Pretrained(f"words-{seed}", "", model.eval(), words.tokenizer())


def word_team(
    agents: Any,
    *,
    seed: int = 0,
    sampling: Any = None,
    stir: float = 0.0,
    rank: int = 8,
    model_seed: int = 0,
    **model: Any,
) -> Any:
    """Return a `LanguageModelTeam` on one `word_model`.

    Args:
        agents: agent names, each with an adapter of its own; or a mapping agent -> adapter (None: the bare base).
        seed: of the adapters.
        sampling: sampling parameters; two tokens per action by default.
        stir: standard deviation of noise added to the adapters, so that they differ from the base and each other.
        rank: of the adapters.
        model_seed: of the base.
        **model: for `word_model`.
    """
    mapping = dict(agents) if isinstance(agents, dict) else {agent: agent for agent in agents}
    kind = (tuple(mapping.items()), seed, sampling, stir, rank, model_seed, *sorted(model.items()))
    if kind not in _BUILT:
        _BUILT[kind] = _built_team(mapping, seed, sampling, stir, rank, word_model(model_seed, **model))
    return copy.deepcopy(_BUILT[kind])


_BUILT: dict[Any, Any] = {}  # a copy costs a third of what building a team costs


def _built_team(mapping: Any, seed: int, sampling: Any, stir: float, rank: int, pretrained: Any) -> Any:
    import torch

    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.adapted_base import AdaptedBase
    from marft_agents.models.base_settings import LoraSettings
    from marft_agents.models.random_models import LINEAR_LAYERS
    from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent

    adapters = list(dict.fromkeys(adapter for adapter in mapping.values() if adapter is not None))
    base = AdaptedBase(pretrained, adapters, LoraSettings(rank, 2 * rank, LINEAR_LAYERS), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for adapter in adapters:
        for tensor in base.parameters(adapter).values():
            tensor.data += stir * torch.randn(tensor.shape, generator=generator)
    local_agents = {agent: LocalAgent(base, adapter) for agent, adapter in mapping.items()}
    return LanguageModelTeam(local_agents, sampling or SamplingParams(max_new_tokens=2))
