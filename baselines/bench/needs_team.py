"""Test of whether a task needs a team: success intact, muted, shuffled and with random partners.

After the probes of "Probing Dec-POMDP Reasoning" (arXiv 2602.20804). The answer holds for the policy that plays: an
oracle shows what the task allows, a model shows what that model uses.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pettingzoo.utils.wrappers import BaseWrapper

from baselines.bench.controls import Heard, HeardMessages, ShuffledTeammates, donor_scenarios, has_authors
from baselines.experiment.environments import factory, scenarios
from baselines.experiment.gold_answers import NoOracleError, oracle_of
from baselines.results.statistics import Interval, PairedDifference, paired_difference, wilson
from marft_agents.policies.policy import Policy
from marft_agents.policies.scripted import MixedPolicy, RandomPolicy, ScriptedPolicy
from marft_agents.runs.evaluation import Evaluation, evaluate
from marft_envs.environment_capabilities import dependency_game
from marft_envs.graders import bare_tasks
from marft_envs.registration.factory import takes
from marft_envs.tasks.tools.calls import CallError, read_calls
from marft_envs.tasks.tools.tasks import ToolTasks
from marft_envs.tasks.tools.turn_taking import HAND_OFF, Handoff
from marft_envs.tasks.worlds.oracle_policy import script

ORACLE = "oracle"
MUTED, SHUFFLED, RANDOM = "muted", "shuffled", "random partner"
USEFUL = 0.05  # below this success of the intact team the probes say nothing
SMALL = 0.1  # a loss that is surely smaller than this does not make a team needed


class NeedsTeamError(ValueError):
    """An environment that cannot be probed; says what is missing."""


@dataclass(frozen=True)
class Probe:
    """One way to play.

    Attributes:
        name: "intact", "muted", "shuffled" or "random partner".
        success: Share of solved scenarios with its 95 % Wilson interval.
        difference: Paired difference to the intact team; None for that team itself.
        failures: Episodes that failed for reasons outside of the agents.
    """

    name: str
    success: Interval
    difference: PairedDifference | None
    failures: int

    @property
    def loses(self) -> bool:
        """True if the 95 % interval of the difference lies below 0."""
        return self.difference is not None and self.difference.high < 0


@dataclass(frozen=True)
class NeedsTeam:
    """Result of all probes.

    Attributes:
        env: Id of the environment.
        policy: Policy that played.
        probes: All probes, the intact team first.
    """

    env: str
    policy: str
    probes: tuple[Probe, ...]

    @property
    def verdict(self) -> str:
        """One sentence: whether the task needs a team, for this policy."""
        intact, *others = self.probes
        lost = [probe.name for probe in others if probe.loses]
        falls = {MUTED: "it is muted", SHUFFLED: "it is shuffled", RANDOM: "its partners act at random"}
        # Order matters: little success, then what was lost, then what may have been too small to see.
        if math.isnan(intact.success.mean) or intact.success.mean < USEFUL:
            return f"undecided: {self.policy} solves {intact.success.mean:.0%} intact, so there is little to lose"
        if {MUTED, SHUFFLED} & set(lost):
            return f"needs a team: success falls when {', and when '.join(falls[name] for name in lost)}"
        if lost:
            return "needs its partners' actions but none of their messages: only random partners lower success"
        if any(probe.difference is not None and probe.difference.low < -SMALL for probe in others):
            return f"undecided: a loss of more than {SMALL:.0%} is possible; play more scenarios"
        return "does not need a team: the answering agents do as well without their teammates"

    def __str__(self) -> str:
        lines = [f"{self.env}, played by {self.policy}"]
        for probe in self.probes:
            line = f"{probe.name:15} success {probe.success}"
            if (change := probe.difference) is not None:  # MDE: minimum detectable effect
                line += f"   difference {change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"
                line += f", MDE {change.detectable:.3f}"
            if probe.failures:
                line += f"   {probe.failures} failed"
            lines.append(line)
        return "\n".join([*lines, self.verdict])


def needs_team(
    env_id: str, keywords: Mapping[str, Any], policy: str = ORACLE, *, limit: int | None = None, seed: int = 0
) -> NeedsTeam:
    """Play an environment in four ways and compare.

    Args:
        env_id: Id of the environment.
        keywords: Keywords of `marft_envs.make`.
        policy: "oracle", or the name of a model.
        limit: Number of scenarios, spread evenly over all; None: all.
        seed: Seed of the sampling and of the shuffle.

    Raises:
        NeedsTeamError: The team has one agent, observations name no authors, or there is no oracle.
    """
    make_env = factory(env_id, keywords)
    env = make_env()
    options = scenarios(env, limit)
    _check(env, env_id, options)
    players = _players(env, policy, seed)
    game = dependency_game(env)
    assert game is not None  # `_check` requires a Flex-MG
    # The partners are the agents that do not answer; where all do, all but the last.
    partners = set(env.possible_agents) - game.team.roster.answering or set(env.possible_agents[:-1])

    def play(make: Callable[[], Any], team: Policy = players) -> Evaluation:
        return evaluate(lambda: _OracleView(make()), team, options, seeds=[seed], patience=math.inf)

    heard: dict[str, dict[str, list[Heard]]] = {}
    intact = play(lambda: HeardMessages(make_env(), heard))
    donor_of = donor_scenarios(options, seed)
    mixed = {agent: RandomPolicy() if agent in partners else players for agent in env.possible_agents}
    # `intact` has to be played before the shuffled team: there agents hear what was heard here.
    probed = {
        MUTED: play(factory(env_id, {**keywords, "communication": "none"})),
        SHUFFLED: play(lambda: ShuffledTeammates(make_env(), heard, donor_of)),
        RANDOM: play(make_env, MixedPolicy(mixed)),
    }
    probes = [_probe("intact", intact, None)]
    probes += [_probe(name, result, intact) for name, result in probed.items()]
    return NeedsTeam(env_id, policy, tuple(probes))


def _check(env: Any, env_id: str, options: Sequence[Mapping[str, Any]]) -> None:
    """Refuse an environment whose messages cannot be muted or shuffled."""
    if len(env.possible_agents) < 2:
        raise NeedsTeamError(f"{env_id} has one agent; wanted a team")
    if len(options) < 2:
        raise NeedsTeamError(f"{env_id}: found {len(options)} scenario, wanted at least 2 to shuffle")
    env.reset(seed=0, options={k: v for k, v in options[0].items() if k != "seed"})
    if not takes(env_id, "communication") or not has_authors(env.observe(env.agent_selection)):
        raise NeedsTeamError(f"{env_id} is no Flex-MG: nothing says which agent wrote a message, so none can be muted")


def _probe(name: str, result: Evaluation, intact: Evaluation | None) -> Probe:
    """Return a way to play with its success, and its paired difference to the intact team."""
    scores = result.scores.T  # [1, scenarios]
    values = result.per_scenario
    success = wilson(float(values.mean()) if len(values) else math.nan, len(values))
    difference = None if intact is None else paired_difference(intact.scores.T, scores)
    return Probe(name, success, difference, result.failures)


# ------------------------------------------------------------------ players


class _OracleView(BaseWrapper[str, Any, Any]):
    """Wrapper whose observations carry the game and this wrapper in attributes, for oracles."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.env.reset(seed=seed, options=options)
        self._plan: str | None = None

    def observe(self, agent: str) -> Any:
        observation: Any = self.env.observe(agent)
        # A policy sees observations alone, so this is how an oracle gets at the solution.
        observation.game, observation.view = self.env.unwrapped, self
        return observation

    def tool_plan(self) -> str:
        """Return the calls of the first holder of control, with what it hands over; made at the first turn."""
        if self._plan is None:
            self._plan = nested_calls(script(self.env.unwrapped))
        return self._plan


def _players(env: Any, policy: str, seed: int) -> Policy:
    if policy == ORACLE:
        return ScriptedPolicy(_oracle_of(env))
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.base_settings import LoraSettings
    from marft_agents.policies.team_building import build_team

    return build_team(env.possible_agents, {"*": policy}, lora=LoraSettings(), sampling=SamplingParams(), seed=seed)


def _oracle_of(env: Any) -> Callable[[str, Any], str]:
    """Return a policy that solves the tasks of an environment; with hand-offs, from what each agent sees and hears."""
    game = dependency_game(env)
    assert game is not None  # `_check` requires a Flex-MG
    if isinstance(bare_tasks(game.tasks), ToolTasks):
        if not isinstance(game.dependency, Handoff):
            raise NeedsTeamError(
                f"{game.metadata['name']}: its agents do not hand over, and the oracle of tools hears "
                "of its calls through hand-offs alone: give --policy MODEL"
            )
        return _tool_oracle
    try:
        oracle = oracle_of(env)
    except NoOracleError as error:
        raise NeedsTeamError(f"{error}: give --policy MODEL") from error
    return lambda agent, observation: oracle(observation.game, agent, observation)


def _tool_oracle(agent: str, observation: Any) -> str:
    """Play the calls of the newest hand-off that the agent heard, one a turn; the first holder knows its own.

    An agent that heard nothing has nothing to do and finishes.
    """
    messages = observation.messages[observation.fixed_messages :]  # without the profile and the problem
    told, since = "", 0  # calls to play, a line each, and the message that told them
    if agent == (observation.game.dependency.start or observation.game.possible_agents[0]):
        told = observation.view.tool_plan()
    for place, message in enumerate(messages):
        if message["role"] == "user" and (said := _handed_over(message["content"])) is not None:
            told, since = said, place
    lines = told.splitlines()
    done = 0  # own turns since: each has played one line
    for message in messages[since:]:
        done += message["role"] == "assistant"
    return lines[done] if done < len(lines) else "finish()"


def _handed_over(text: str) -> str | None:
    """Return the message of a hand-off; None if a text holds none."""
    try:
        calls = [call for call in read_calls(text) if call.name == HAND_OFF]
    except CallError:
        return None
    return str(calls[0].arguments.get("message", "")) if calls else None


def nested_calls(actions: Sequence[tuple[str, str]]) -> str:
    """Return the calls of the first agent of a script, a line each; its hand-off tells the next agent all of its own.

    Args:
        actions: Agent and action of each turn; every agent but the last ends with a hand-off.
    """
    segments: list[tuple[str, list[str]]] = []  # agent that holds control, and its actions until it hands over
    for agent, action in actions:
        if not segments or segments[-1][0] != agent:
            segments.append((agent, []))
        segments[-1][1].append(action)
    # From the last holder back: a hand-off must hold all that its receiver does, its own hand-off included.
    agent, last = segments[-1]
    text = "\n".join(last)
    for holder, (*calls, _) in reversed(segments[:-1]):
        message = json.dumps(text, ensure_ascii=False)
        text = "\n".join([*calls, f"{HAND_OFF}(to={json.dumps(agent)}, message={message})"])
        agent = holder
    return text
