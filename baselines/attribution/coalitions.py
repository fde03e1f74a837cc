"""Shapley values and leave-one-out values of a team's agents, by replay of coalitions.

The team is a cooperative game whose players are agents. The value v(S) of a coalition S is the success of the team when
the agents of S play their trained policies and all other players are replaced. All coalitions play the same scenarios
with the same random numbers: a turn's generator depends on seed, scenario and turn alone. Turns before the first one of
a replaced agent are therefore those of the whole team, and are replayed from its record.

Sources: Shapley (1953), A value for n-person games. Values per scenario are those of one game each, so their mean is
the value of the mean game (the Shapley value is linear).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from baselines.experiment.gold_answers import OracleView
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.policy import Policy, text_action
from marft_agents.policies.scripted import MixedPolicy, ScriptedPolicy
from marft_agents.rollouts.recorded_game import NOT_DETERMINISTIC, ReplayError
from marft_agents.rollouts.rollout import MAX_TURNS
from marft_agents.runs.evaluation import Evaluation, evaluate
from marft_agents.runs.run_folder import episode_record
from marft_agents.trajectory import Action, Trajectory

Coalition = frozenset[str]
Floats = npt.NDArray[np.float64]
Method = Literal["shapley", "loo"]
MakeEnv = Callable[[], Any]
Game = tuple[MakeEnv, Policy]

MOST_EXACT = 4  # players; exact Shapley values of n players need 2^n coalitions


# ------------------------------------------------------------------ mathematics


def coalitions(players: Sequence[str], method: Method) -> list[Coalition]:
    """Return the coalitions whose values a method needs: the whole team first, then by decreasing size.

    Examples:
        >>> [sorted(coalition) for coalition in coalitions(["a", "b"], "shapley")]
        [['a', 'b'], ['a'], ['b'], []]
    """
    sizes = range(len(players), -1, -1) if method == "shapley" else (len(players), len(players) - 1)
    return [frozenset(members) for size in sizes for members in itertools.combinations(players, size)]


class Marginal(NamedTuple):
    """Success without and with an agent, weighted over the coalitions of the others; float64 [scenarios] each.

    The agent's value is their difference, so it is a paired difference over scenarios.
    """

    without: Floats
    joined: Floats

    @property
    def value(self) -> Floats:
        """The agent's value in each scenario, float64 [scenarios]."""
        return self.joined - self.without


def shapley(values: Mapping[Coalition, npt.ArrayLike], players: Sequence[str]) -> dict[str, Marginal]:
    """Compute exact Shapley values.

    phi(i) = sum over S without i of w(S) (v(S + i) - v(S)),   w(S) = |S|! (n - |S| - 1)! / n!

    The weights of an agent sum to 1, so both parts of its marginal are shares of successes.

    Args:
        values: Success v(S) of all 2^n coalitions, float64 [scenarios] or a number.
        players: Names of the n players.

    Returns:
        The marginal of each player; the values sum to v(all) - v(none).

    Example: a veto player and one of two others must act (v = 1), so the veto player gets 2/3.
        >>> game = {s: float("veto" in s and len(s) > 1) for s in coalitions(["veto", "b", "c"], "shapley")}
        >>> {agent: round(float(m.value), 3) for agent, m in shapley(game, ["veto", "b", "c"]).items()}
        {'veto': 0.667, 'b': 0.167, 'c': 0.167}
    """
    count = len(players)
    found = {}
    for player in players:
        without: Floats = np.zeros(())
        joined: Floats = np.zeros(())
        for coalition in coalitions([other for other in players if other != player], "shapley"):
            size = len(coalition)
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            without = without + weight * np.asarray(values[coalition], np.float64)
            joined = joined + weight * np.asarray(values[coalition | {player}], np.float64)
        found[player] = Marginal(without, joined)
    return found


def leave_one_out(values: Mapping[Coalition, npt.ArrayLike], players: Sequence[str]) -> dict[str, Marginal]:
    """Compute leave-one-out values v(all) - v(all without i); they need not sum to anything.

    Args:
        values: Success of the whole team and of the team without each player, float64 [scenarios] or a number.
        players: Names of the players.
    """
    everyone = frozenset(players)
    whole = np.asarray(values[everyone], np.float64)
    return {player: Marginal(np.asarray(values[everyone - {player}], np.float64), whole) for player in players}


# ------------------------------------------------------------------ replaced agents


Replacement = Callable[[Coalition], Game]
"""Maps the replaced agents to an environment factory and the policy of the team."""


def untrained(make_env: MakeEnv, team: LanguageModelTeam) -> Replacement:
    """Replace agents by the bare base: the same base model with the adapter disabled, without a second copy."""

    def replaced(agents: Coalition) -> Game:
        local_agents = {
            agent: LocalAgent(local.base, None) if agent in agents else local
            for agent, local in team.local_agents.items()
        }
        return make_env, team.with_local_agents(local_agents)

    return replaced


def silent(make_env: MakeEnv, policy: Policy, team: Iterable[str]) -> Replacement:
    """Replace agents by empty messages."""
    stand_in, agents_of_team = ScriptedPolicy(lambda agent, observation: ""), tuple(team)

    def replaced(agents: Coalition) -> Game:
        return make_env, mixed(policy, stand_in, agents_of_team, agents)

    return replaced


def oracle(make_env: MakeEnv, policy: Policy, team: Iterable[str]) -> Replacement:
    """Replace agents by the gold answer of the task, see `gold_answers.OracleView`."""
    stand_in, agents_of_team = ScriptedPolicy(lambda agent, observation: str(observation)), tuple(team)

    def replaced(agents: Coalition) -> Game:
        return lambda: OracleView(make_env(), agents), mixed(policy, stand_in, agents_of_team, agents)

    return replaced


def mixed(policy: Policy, stand_in: Policy, team: Iterable[str], replaced: Collection[str]) -> Policy:
    """Return the policy of a team in which a stand-in plays the replaced agents."""
    return MixedPolicy({agent: stand_in if agent in replaced else policy for agent in team})


# ------------------------------------------------------------------ play


@dataclass(frozen=True)
class CoalitionResult:
    """Success of one coalition on all scenarios.

    Attributes:
        players: Members that play their trained policies, in team order.
        scores: Float64 [scenarios, seeds]: 1 for success; NaN where the episode failed.
        generated_tokens: Number of sampled tokens; those of replayed turns do not count.
        seconds: Wall seconds of play.
        failures: Cause of each failed episode.
        episodes: Records of the episodes [seeds][scenarios] as `episode_record` returns them; kept for the whole team
            alone, whose turns the others replay.
    """

    players: tuple[str, ...]
    scores: Floats
    generated_tokens: int
    seconds: float
    failures: tuple[str, ...] = ()
    episodes: tuple[tuple[Mapping[str, Any], ...], ...] = ()

    @property
    def value(self) -> Floats:
        """Success in each scenario, float64 [scenarios]: mean over the seeds; NaN if an episode failed."""
        found: Floats = self.scores.mean(axis=1)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "players": list(self.players),
            "scores": as_json(self.scores),
            "generated_tokens": self.generated_tokens,
            "seconds": self.seconds,
            "failures": list(self.failures),
            "episodes": [list(column) for column in self.episodes],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        return cls(
            players=tuple(record["players"]),
            scores=np.asarray(record["scores"], np.float64),
            generated_tokens=record["generated_tokens"],
            seconds=record["seconds"],
            failures=tuple(record["failures"]),
            episodes=tuple(tuple(column) for column in record["episodes"]),
        )


def as_json(values: Floats) -> Any:
    """Return an array as nested lists for JSON, with None for NaN."""
    if values.ndim > 1:
        return [as_json(row) for row in values]
    return [None if math.isnan(value) else value for value in values.tolist()]


@dataclass(frozen=True)
class CoalitionGames:
    """Scenarios and random numbers that all coalitions share.

    Attributes:
        replacement: Maps the replaced agents to an environment factory and a policy.
        players: Agents whose contributions are measured; the others always play their trained policies.
        scenarios: Reset options of each scenario, see `runs.evaluation.evaluate`.
        seeds: Seeds of the sampling.
        max_turns: Most turns of an episode; 0: no limit.
        num_envs: Number of games played at the same time.
        on_end: Called with each finished episode.
    """

    replacement: Replacement
    players: tuple[str, ...]
    scenarios: Sequence[Mapping[str, Any]]
    seeds: Sequence[int] = (0,)
    max_turns: int = MAX_TURNS
    num_envs: int = 128
    on_end: Callable[[Trajectory], None] = field(default=lambda _: None)

    def play(self, coalition: Coalition, whole: CoalitionResult | None = None) -> CoalitionResult:
        """Play all scenarios with a coalition.

        Args:
            coalition: Players that play their trained policies.
            whole: Result of the whole team; its turns before the first replaced agent are replayed. None generates
                every turn.

        Raises:
            ReplayError: A replayed turn differs from its record.
        """
        replaced = frozenset(self.players) - coalition
        started = time.perf_counter()
        make_env, policy = self.replacement(replaced)
        played = []
        for place, seed in enumerate(self.seeds):
            records = whole.episodes[place] if whole is not None else ()
            prefixes = [replayed_turns(record, replaced) for record in records]
            played.append(self.evaluate(make_env, policy, self.scenarios, seed, prefixes))
            for record, prefix, trajectory in zip(records, prefixes, played[-1].trajectories, strict=bool(records)):
                check_replay(record, trajectory, len(prefix))
        trajectories = [trajectory for one in played for trajectory in one.trajectories]
        keep = not replaced
        return CoalitionResult(
            players=tuple(player for player in self.players if player in coalition),
            scores=np.concatenate([one.scores for one in played], axis=1),
            generated_tokens=sum(trajectory.num_tokens for trajectory in trajectories),
            seconds=time.perf_counter() - started,
            failures=tuple(t.failure for t in trajectories if t.failure is not None),
            episodes=tuple(tuple(episode_record(0, t, whole=True) for t in one.trajectories) for one in played * keep),
        )

    def evaluate(
        self,
        make_env: MakeEnv,
        policy: Policy,
        scenarios: Sequence[Mapping[str, Any]],
        seed: int,
        prefixes: Sequence[tuple[Action, ...]],
    ) -> Evaluation:
        """Play scenarios after fixed first actions."""
        return evaluate(
            make_env,
            policy,
            scenarios,
            seeds=[seed],
            num_envs=self.num_envs,
            on_end=self.on_end,
            patience=math.inf,  # batches must not depend on the clock, so that a resumed attribution repeats them
            max_turns=self.max_turns,
            prefixes=prefixes,
        )


def replayed_turns(record: Mapping[str, Any], replaced: Collection[str]) -> tuple[Action, ...]:
    """Return the actions of an episode before the first turn of a replaced agent.

    A failed episode has none. Neither has one of an agent program, which can only be played anew.
    """
    if record["failure"] is not None or (record["game"] or {}).get("kind") == "program":
        return ()
    unchanged = itertools.takewhile(lambda turn: turn["agent"] not in replaced, record["turns"])
    return tuple(text_action(turn["text"]) for turn in unchanged)


def check_replay(record: Mapping[str, Any], replayed: Trajectory, turns: int) -> None:
    """Refuse a replay that differs from its record: agents, observations and rewards of the replayed turns.

    Raises:
        ReplayError: The first difference; it names the turn, the value found and the value recorded.
    """
    if replayed.failure is not None and turns:
        if replayed.failure.startswith("replay"):
            raise ReplayError(replayed.failure)
        return
    game, found = record["game"] or {}, replayed.game or {}
    for number in range(turns):
        was, now = record["turns"][number], replayed.turns[number]
        compared: list[tuple[str, Any, Any]] = [
            ("agent", was["agent"], now.agent),
            ("reward", was["reward"], now.reward),
        ]
        if game and found:
            seen = [str(episode["turns"][number]["observation"]) for episode in (game, found)]
            compared.append(("observation", seen[0], seen[1]))
        for name, recorded, played in compared:
            if recorded != played:
                raise ReplayError(
                    f"replay of turn {number}: {name} {recorded!r} was recorded, found {played!r}; {NOT_DETERMINISTIC}"
                )
