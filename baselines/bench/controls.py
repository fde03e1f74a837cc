"""Control conditions of the benchmark: anonymous roles, shuffled teammates, and majority vote of one agent's samples.

Of these only the vote looks at outcomes. The others change what agents are told, never what they do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pettingzoo.utils.wrappers import BaseWrapper

from marft_agents.trajectory import Trajectory, score
from marft_envs.environment_capabilities import listing_game
from marft_envs.game.episode import Episode
from marft_envs.game.task import VotingTasks
from marft_envs.spaces import Message, TextObservation
from marft_envs.teams.profile import ENVIRONMENT

# ------------------------------------------------------------------ anonymous roles


def anonymous(team: Mapping[str, Any], solo: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Remove role names and profiles from a team.

    Every agent gets the system prompt and worked examples of the one agent, the same for all, and the name `agent_N`
    by its place in the team. Kept are the dependency, who answers, tools and private texts.

    Args:
        team: The team, in its JSON form.
        solo: The one agent, in its JSON form.

    Returns:
        The team without roles, and the old name of each new one.
    """
    role = solo["profiles"][0]
    examples = _renamed(role.get("examples", []), {role["name"]: "agent_0"})
    names, old_names, profiles = {}, {}, []
    for place, profile in enumerate(team["profiles"]):
        old, new = profile["name"], f"agent_{place}"
        names[old], old_names[new] = new, old
        profiles.append({**profile, "name": new, "system_prompt": role["system_prompt"], "examples": examples})
    dependency = _renamed(team.get("dependency", "chain"), names)
    return {**team, "profiles": profiles, "dependency": dependency}, old_names


def renamed_keywords(keywords: Mapping[str, Any], old_names: Mapping[str, str]) -> dict[str, Any]:
    """Return environment keywords with the agents' new names, in dependencies and in communication by edge."""
    names = {old: new for new, old in old_names.items()}
    found = dict(keywords)
    for key in ("dependency", "communication"):
        if isinstance(found.get(key), Mapping):
            found[key] = _renamed(found[key], names)
    return found


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Replace agents' names in texts that are a name or an edge "i->j", at any depth."""
    if isinstance(value, str):
        return "->".join(names.get(part, part) for part in value.split("->"))
    if isinstance(value, Mapping):
        return {_renamed(key, names): _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(item, names) for item in value]
    return value


# ------------------------------------------------------------------ shuffled teammates

Heard = list[tuple[str, str]]  # author and text of each message of a teammate, oldest first


def donors(count: int, seed: int) -> list[int]:
    """Return for each scenario another one whose teammates it hears: one cycle through all, drawn by the seed.

    Examples:
        >>> sorted(donors(4, 0)), any(donor == i for i, donor in enumerate(donors(4, 0)))
        ([0, 1, 2, 3], False)
    """
    # One cycle through a random order: nobody is its own donor, and everybody is the donor of one.
    order = np.random.default_rng(np.random.SeedSequence([seed, count])).permutation(count).tolist()
    found = [0] * count
    for place, scenario in enumerate(order):
        found[scenario] = order[(place + 1) % count]
    return found


def donor_scenarios(options: Sequence[Mapping[str, Any]], seed: int) -> dict[str, str]:
    """Return the key of the donor of each scenario, by the key of that scenario; see `donors`."""
    keys = [scenario_key(option) for option in options]
    donor_of = {}
    for scenario, donor in zip(keys, donors(len(keys), seed), strict=True):
        donor_of[scenario] = keys[donor]
    return donor_of


def scenario_key(options: Mapping[str, Any]) -> str:
    """Return a text that identifies a scenario by its reset options."""
    return json.dumps(dict(options), sort_keys=True)


class HeardMessages(BaseWrapper[str, Any, Any]):
    """Wrapper that records what each agent hears from its teammates, turn by turn; it changes nothing.

    Args:
        env: AEC environment whose observations have messages with authors.
        record: Filled with the messages by scenario, agent and turn of that agent.
    """

    def __init__(self, env: Any, record: dict[str, dict[str, list[Heard]]]) -> None:
        super().__init__(env)
        self._record = record

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; arguments as in the game."""
        self._turns: dict[str, list[Heard]] = {}
        self._record[scenario_key(options or {"seed": seed})] = self._turns
        self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> None:
        """Take the turn of `agent_selection`."""
        if action is not None:
            agent = self.env.agent_selection
            self._turns.setdefault(agent, []).append(_heard(self.env.observe(agent), agent))
        self.env.step(action)


class ShuffledTeammates(BaseWrapper[str, Any, Any]):
    """Wrapper in which each agent reads the messages of another episode's teammates in place of its own.

    In an agent's k-th turn, the n-th message of a teammate is the n-th message that the donor's agent of that name had
    heard from it in its own k-th turn. Messages that the donor does not have are left out. What the environment says,
    the agent's own actions, and the game itself stay: actions take effect in the agent's own episode.

    Args:
        env: AEC environment whose observations have messages with authors.
        heard: Messages by scenario, agent and turn, recorded in a first pass by `HeardMessages`.
        donor_of: Scenario -> scenario whose teammates are heard.
    """

    def __init__(
        self, env: Any, heard: Mapping[str, Mapping[str, Sequence[Heard]]], donor_of: Mapping[str, str]
    ) -> None:
        super().__init__(env)
        self._heard, self._donor_of = heard, donor_of

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; arguments as in the game."""
        # What the donor's agents heard, turn by turn.
        self._donor = self._heard[self._donor_of[scenario_key(options or {"seed": seed})]]
        self._turns_taken: dict[str, int] = {}
        self.env.reset(seed=seed, options=options)

    def observe(self, agent: str) -> str:
        """Return the agent's observation with the donor's messages."""
        turns, number = self._donor.get(agent, ()), self._turns_taken.get(agent, 0)
        donated = turns[number] if number < len(turns) else []
        return _replaced(self.env.observe(agent), agent, donated)

    def step(self, action: Any) -> None:
        """Take the turn of `agent_selection`."""
        if action is not None:
            agent = self.env.agent_selection  # before the step, which moves on to the next
            self._turns_taken[agent] = self._turns_taken.get(agent, 0) + 1
        self.env.step(action)


def has_authors(observation: Any) -> bool:
    """Return True if an observation says who wrote each of its messages, and where the game begins."""
    return bool(getattr(observation, "messages", None)) and getattr(observation, "fixed_messages", None) is not None


def _of_teammate(message: Mapping[str, str], agent: str) -> bool:
    """Return True if another agent wrote a message; one without a name is the environment's."""
    return message["role"] == "user" and message.get("name", ENVIRONMENT) not in (ENVIRONMENT, agent)


def _heard(observation: Any, agent: str) -> Heard:
    """Return the teammates' messages in an observation."""
    said = observation.messages[observation.fixed_messages :]
    return [(message["name"], message["content"]) for message in said if _of_teammate(message, agent)]


def _replaced(observation: Any, agent: str, donated: Heard) -> TextObservation:
    """Put donated messages in place of the teammates', author by author; those without a donated one are left out."""
    fixed = observation.fixed_messages
    by_author: dict[str, list[str]] = {}
    for author, text in donated:
        by_author.setdefault(author, []).append(text)
    messages = [Message(**message) for message in observation.messages[:fixed]]
    for message in observation.messages[fixed:]:
        if not _of_teammate(message, agent):
            messages.append(Message(**message))
        elif texts := by_author.get(message["name"]):
            messages.append(Message("user", texts.pop(0), message["name"]))
    return TextObservation.of(tuple(messages), fixed)


# ------------------------------------------------------------------ vote


def voting_tasks(env: Any) -> VotingTasks | None:
    """Return the set of tasks of an environment if its episodes can vote; else None."""
    game = listing_game(env)
    tasks = None if game is None else game.tasks
    return tasks if isinstance(tasks, VotingTasks) else None


def majority(samples: Sequence[Trajectory], tasks: VotingTasks) -> int | None:
    """Return the index of the first sample that voted with the largest group.

    Of groups of one size the one that voted first wins. Failed episodes do not vote.

    Args:
        samples: Episodes of one scenario.
        tasks: Their set of tasks.

    Returns:
        None if nobody voted.
    """
    groups: list[tuple[object, list[int]]] = []  # a vote need have no hash, so equal ones are searched for
    for number, sample in enumerate(samples):
        if sample.failure is not None or sample.game is None:
            continue
        vote = tasks.vote(Episode.from_dict(sample.game).outcomes)
        if vote is None:
            continue
        for choice, members in groups:
            if choice == vote:
                members.append(number)
                break
        else:
            groups.append((vote, [number]))
    largest = max((members for _, members in groups), key=len, default=None)  # of equal ones the first
    return None if largest is None else largest[0]


def vote_score(samples: Sequence[Trajectory], tasks: VotingTasks) -> float:
    """Return 1 if the majority's choice is a success, else 0; NaN if every sample failed."""
    if all(sample.failure is not None for sample in samples):
        return float("nan")
    winner = majority(samples, tasks)
    return 0.0 if winner is None else score(samples[winner])


def samples_to_match(team_tokens: float, solo_tokens: float) -> int:
    """Return the number of samples k >= 1 whose output tokens come nearest to the team's.

    Examples:
        >>> samples_to_match(30.0, 11.0), samples_to_match(5.0, 11.0)
        (3, 1)
    """
    below = max(1, int(team_tokens // solo_tokens)) if solo_tokens else 1
    # The nearest number is this one or the next; of two that are as near, the fewer samples.
    return min((below, below + 1), key=lambda k: (abs(k * solo_tokens - team_tokens), k))
