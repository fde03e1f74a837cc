"""Benchmark workload shared by all contenders: the same model, prompts, answer lengths, samples and rewards.

A chain of agents plays the embedded word problems. Each agent sees the problem, worked examples and the previous
agent's answer, so prompts do not grow with the team. The answers are cut out of the data set's worked solutions, with
random lengths. The text of an answer does not change its cost, so making a workload needs no model. All processes read
the same file. Late in training the answers of a group become similar. Here they share no prefix, which is the harder
case for a trainer with prefix sharing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

ENVIRONMENT = "marft/gsm8k_duo-v0"
SHORTEST = 8  # tokens of an answer
SPREAD = 0.6  # standard deviation of the logarithm of the lengths
END_TOKEN = 0  # last token of every answer


@dataclass(frozen=True)
class Shape:
    """Size of a workload.

    Attributes:
        agents: Number of agents in the team.
        groups: Number of problems, one prompt group each.
        group_size: Number of episodes per problem.
        answer: Mean length of the answers in tokens.
        cap: Maximum length of an answer in tokens.
        examples: Repetitions of the preset's worked examples in each prompt, which set the prompt length.
        vocabulary: Vocabulary size of a random model with the same trunk; None uses the model itself.
        seed: Seed of the problems, lengths, answers and rewards.
    """

    agents: int = 2
    groups: int = 1
    group_size: int = 8
    answer: int = 64
    cap: int = 96
    examples: int = 1
    vocabulary: int | None = None
    seed: int = 0


class Observation(str):
    """Text of an observation, with its chat messages as an attribute."""

    messages: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class RecordedTurn:
    """One sample: an agent's prompt and answer.

    Attributes:
        episode: Index of the episode; episodes of one group are adjacent.
        agent: Name of the acting agent.
        messages: Observation as chat messages.
        prompt_ids: Token ids of the prompt, [P].
        token_ids: Token ids of the answer, [T], the last one `END_TOKEN`.
        logprobs: Log-probs of the answer under the model, [T], as sampling would record them; empty until scored.
    """

    episode: int
    agent: str
    messages: tuple[Mapping[str, str], ...]
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()

    @property
    def observation(self) -> Observation:
        """Observation of the agent, in the environment's form."""
        seen = Observation("\n\n".join(message["content"] for message in self.messages))
        seen.messages = self.messages
        return seen


@dataclass(frozen=True)
class Workload:
    """Samples and rewards for generation and updates.

    Attributes:
        model: Folder of the model, readable by `from_pretrained`.
        agents: Names of the agents in the order of their turns.
        group_size: Number of episodes per problem.
        cap: Maximum length of an answer in tokens.
        turns: All samples: those of the first agent, then those of the second, and so on.
        rewards: Team reward of each episode, 0 or 1.
    """

    model: str
    agents: tuple[str, ...]
    group_size: int
    cap: int
    turns: tuple[RecordedTurn, ...]
    rewards: tuple[float, ...]

    def of(self, agent: str) -> tuple[RecordedTurn, ...]:
        """Return an agent's samples in the order of the episodes."""
        return tuple(turn for turn in self.turns if turn.agent == agent)

    @cached_property
    def tokens(self) -> int:
        """Number of answer tokens."""
        return sum(len(turn.token_ids) for turn in self.turns)

    def summary(self) -> dict[str, float]:
        """Return the numbers of agents, samples and tokens, and mean, minimum and maximum lengths in tokens."""
        prompts = [len(turn.prompt_ids) for turn in self.turns]
        answers = [len(turn.token_ids) for turn in self.turns]
        sizes: dict[str, float] = {
            "agents": len(self.agents),
            "group_size": self.group_size,
            "samples": len(self.turns),
        }
        sizes |= {"action_tokens": self.tokens, "answers_at_the_cap": sum(n == self.cap for n in answers)}
        for name, lengths in (("prompt", prompts), ("answer", answers)):
            sizes |= {
                f"{name}_mean": float(np.mean(lengths)), f"{name}_min": min(lengths), f"{name}_max": max(lengths)
            }  # fmt: skip
        return sizes

    def in_vocabulary(self, size: int) -> Workload:
        """Return the workload in another vocabulary, with token ids modulo its size; suitable for updates only."""
        return self.with_turns(
            replace(
                turn,
                prompt_ids=tuple(i % size for i in turn.prompt_ids),
                token_ids=tuple(i % size for i in turn.token_ids),
            )
            for turn in self.turns
        )

    def with_turns(self, turns: Iterable[RecordedTurn]) -> Workload:
        """Return the workload with other samples."""
        return replace(self, turns=tuple(turns))

    def save(self, path: Path) -> Path:
        """Write the workload as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Workload:
        """Read a workload from a file written by `save`."""
        record = json.loads(path.read_text(encoding="utf-8"))
        turns = tuple(
            RecordedTurn(
                turn["episode"],
                turn["agent"],
                tuple(turn["messages"]),
                tuple(turn["prompt_ids"]),
                tuple(turn["token_ids"]),
                tuple(turn["logprobs"]),
            )
            for turn in record.pop("turns")
        )
        agents, rewards = tuple(record.pop("agents")), tuple(record.pop("rewards"))
        return cls(turns=turns, agents=agents, rewards=rewards, **record)


def make_workload(tokenizer: Any, model: str, shape: Shape) -> Workload:
    """Make a workload: play the games with answers cut from worked solutions.

    Args:
        tokenizer: Tokenizer of the model, with a chat template.
        model: Folder of the model.
        shape: Size of the workload.
    """
    from marft_agents.models.chat_template import encode
    from marft_envs import make

    rng = np.random.default_rng(np.random.SeedSequence([shape.seed, 0]))
    episodes = shape.groups * shape.group_size
    lengths = answer_lengths(shape.agents * episodes, shape.answer, shape.cap, rng).reshape(episodes, shape.agents)
    problems = resources.files("envs_data").joinpath("gsm8k/train.jsonl").read_text(encoding="utf-8").splitlines()
    solutions = "\n\n".join(json.loads(line)["answer"] for line in problems)
    corpus = [i for i in tokenizer(solutions)["input_ids"] if i != END_TOKEN]
    env: Any = make(ENVIRONMENT, team=chain_team(shape.agents, shape.examples))
    turns: list[RecordedTurn] = []
    for episode in range(episodes):
        problem = np.random.SeedSequence([shape.seed, 1 + episode // shape.group_size])
        env.reset(seed=int(problem.generate_state(1)[0]))
        for length in lengths[episode]:
            agent = env.agent_selection
            seen = env.observe(agent)
            start = int(rng.integers(len(corpus) - shape.cap))
            answer = (*corpus[start : start + int(length) - 1], END_TOKEN)
            ids = tuple(encode(tokenizer, seen).ids.tolist())
            turns.append(RecordedTurn(episode, agent, tuple(map(dict, seen.messages)), ids, answer))
            env.step(tokenizer.decode(answer[:-1]))
    rewards = tuple(float(r) for r in rng.permuted(np.arange(episodes) % 2))
    names = tuple(env.possible_agents)
    staged = sorted(turns, key=lambda turn: (names.index(turn.agent), turn.episode))
    made = Workload(model, names, shape.group_size, shape.cap, tuple(staged), rewards)
    return made if shape.vocabulary is None else made.in_vocabulary(shape.vocabulary)


def answer_lengths(count: int, mean: int, cap: int, rng: np.random.Generator) -> Any:
    """Sample log-normal answer lengths, clipped to [`SHORTEST`, cap] and scaled to a mean near `mean`.

    Returns:
        Lengths in tokens, int64 [count].
    """
    shape = np.exp(SPREAD * rng.standard_normal(count))
    low, high = 0.0, float(cap * count)
    for _ in range(60):  # bisection: the mean grows with the scale
        scale = (low + high) / 2
        lengths = np.clip(np.rint(scale * shape), min(SHORTEST, cap), cap)
        low, high = (scale, high) if lengths.mean() < mean else (low, scale)
    return lengths.astype(np.int64)


def chain_team(size: int, examples: int = 1) -> dict[str, Any]:
    """Return a chain team from the preset duo's profiles: each agent sees the problem and the previous agent.

    Args:
        size: Number of agents; the last one answers.
        examples: Repetitions of the preset's worked examples in each prompt.
    """
    duo = json.loads(
        resources.files("marft_envs").joinpath("teams/presets/math_duo_en.json").read_text(encoding="utf-8")
    )
    first, then = ({**profile, "examples": profile["examples"] * examples} for profile in duo["profiles"])
    profiles = [{**first, "answers": size == 1}]
    for place in range(1, size):
        profiles.append({**then, "name": f"actor_{place - 1}", "answers": place == size - 1})
    rows = [[int(column == row + 1) for column in range(size)] for row in range(size)]
    return {
        "name": f"chain_{size}",
        "language": "en",
        "dependency": {"kind": "matrix", "rows": rows},
        "profiles": profiles,
    }
