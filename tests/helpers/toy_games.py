"""Small games for tests: an adder with a trivial grader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from marft_envs import FlexMG, Profile, Task, Team
from marft_envs.dependency import Dependency, chain
from marft_envs.game.episode import Episode
from marft_envs.tasks.math import MathTasks


@dataclass(frozen=True)
class ToyGrade:
    correct: bool
    extracted: str | None


def toy_grader(response: str, gold: str) -> ToyGrade:
    if "\\boxed{" not in response:
        return ToyGrade(False, None)
    answer = response.rpartition("\\boxed{")[2].partition("}")[0]
    return ToyGrade(answer == gold, answer)


def toy_tasks(count: int = 7) -> MathTasks:
    tasks = [Task(f"add-{place}", f"What is {place} + 1?", str(place + 1), "train") for place in range(count)]
    return MathTasks("toy", tasks, grader=toy_grader)


def toy_team(*names: str, answering: tuple[str, ...] = (), dependency: Dependency | None = None) -> Team:
    answers = answering or names[-1:]
    profiles = tuple(Profile(name, f"You are {name}.", answers=name in answers) for name in names)
    return Team("toy", profiles, dependency or chain())


def toy_game(*names: str, **kwargs: Any) -> FlexMG:
    return FlexMG(toy_tasks(), toy_team(*(names or ("a_0", "b_0"))), **kwargs)


def play(env: Any, say: Callable[[str], str]) -> Iterator[str]:
    """Yield the agent before each turn; stop when all have ended, undrained."""
    while not any(env.terminations.values()) and not any(env.truncations.values()):
        agent = env.agent_selection
        yield agent
        env.step(say(agent))


def play_out(env: Any, say: Callable[[str], str] = lambda agent: f"{agent} says nothing") -> Any:
    for _ in play(env, say):
        pass
    return env


def play_through(env: Any, say: Callable[[str, Any], str]) -> Episode:
    """Play a game that was reset with `say(agent, observation)` to its end; return the record."""
    for agent in env.agent_iter():
        observation, _, terminated, truncated, _ = env.last()
        env.step(None if terminated or truncated else say(agent, observation))
    record: Episode = env.unwrapped.episode()
    return record


def say(env, script):
    """Play; `script` gives each agent's action by (agent, round)."""
    for agent in env.agent_iter():
        observation, _, terminated, truncated, info = env.last()
        env.step(None if terminated or truncated else script(agent, int(info["round"]), str(observation)))
