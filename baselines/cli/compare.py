"""`marft compare A B`: paired difference of two teams on the scenarios that both played, with a gate for CI.

A side is one evaluation, or several of one arm trained with several seeds. All evaluations must have played the same
scenario list under the same settings.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from baselines.cli.terminal import say
from baselines.cli.trust_flag import add_trust_flag
from baselines.results.agent_changes import AgentChange, Change, agent_changes
from baselines.results.comparison import (
    METRICS,
    SCHEMA,
    CohortComparison,
    Comparison,
    ComparisonError,
    compare,
    read_side,
)
from baselines.results.policy_divergence import MOST_EPISODES, Divergence, policy_divergence
from baselines.results.statistics import PairedDifference
from baselines.results.visible_console import TABLE_WIDTH, console
from marft_agents.runs.run_folder import write_json

COMPARATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
GATE = re.compile(
    rf"(?P<metric>{'|'.join(METRICS)})(?:\.(?P<end>low|high))?"
    r"(?:\s+(?P<cohort>[A-Za-z_]\w*)=(?P<value>[^<>=]*[^<>=\s]))?"
    r"\s*(?P<operator><=|>=|<|>)\s*(?P<bound>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
)
WANTED_GATE = (
    f"METRIC [COHORT=VALUE] OPERATOR NUMBER with METRIC one of {', '.join(METRICS)} (or .low, .high of it) and "
    'OPERATOR one of <, <=, >, >=, like "success < -0.02" or "success.low level=5 < -0.05"'
)


# ------------------------------------------------------------------ gate


@dataclass(frozen=True)
class Gate:
    """A condition on the difference B - A, under which the command fails.

    Attributes:
        text: The condition as it was given.
        metric: One of `METRICS`.
        end: "low" or "high" of the 95 % interval; None for the mean.
        cohort: Name and value of the cohort; None for all scenarios.
        operator: One of `COMPARATORS`.
        bound: Number to compare with.
    """

    text: str
    metric: str
    end: str | None
    cohort: tuple[str, str] | None
    operator: str
    bound: float

    def holds(self, found: PairedDifference) -> bool:
        """Return True if the condition holds for a difference."""
        return COMPARATORS[self.operator](self.value(found), self.bound)

    def value(self, found: PairedDifference) -> float:
        """Return the number that is compared with the bound."""
        return float(getattr(found, self.end or "mean"))


def read_gate(text: str) -> Gate:
    """Parse a condition.

    Raises:
        argparse.ArgumentTypeError: It is no condition.
    """
    match = GATE.fullmatch(text.strip())
    if match is None or not math.isfinite(float(match["bound"])):
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted {WANTED_GATE}")
    # Quotes around the value are allowed, as in a configuration; the shell has taken those around the condition.
    cohort = None if match["cohort"] is None else (match["cohort"], match["value"].strip().strip("'\""))
    return Gate(text.strip(), match["metric"], match["end"], cohort, match["operator"], float(match["bound"]))


# ------------------------------------------------------------------ command


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft compare`."""
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="A B",
        help="evaluations (folder or evaluation.json), runs (RUN, RUN@best) or checkpoints; the difference is B - A",
    )
    parser.add_argument("--a", nargs="+", metavar="PATH", help="several evaluations of side A, one per training seed")
    parser.add_argument("--b", nargs="+", metavar="PATH", help="several evaluations of side B, likewise")
    parser.add_argument(
        "--fail-if",
        action="append",
        type=read_gate,
        metavar="CONDITION",
        help='exit with 1 if this holds for B - A, like "success < -0.02", "success.low level=5 < -0.05" or '
        '"tokens > 100"; may be repeated',
    )
    parser.add_argument(
        "--allow-different",
        action="append",
        metavar="KEY",
        help="compare although this setting differs (env, dependency, horizon, feedback, temperature, ...); may be "
        "repeated, and KEY,KEY names several",
    )
    parser.add_argument(
        "--by",
        choices=("agent",),
        help="also compare agent by agent: KL divergence of the policies on the prompts of A, tokens, tools, hand-off "
        "loops, and the terms of the reward",
    )
    parser.add_argument(
        "--kl-episodes",
        type=int,
        metavar="N",
        help=f"most episodes of A whose actions both teams score (default: {MOST_EPISODES})",
    )
    add_trust_flag(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparison to a file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft compare`; the exit code is 1 if a condition of --fail-if holds."""
    a, b = _sides(arguments)
    allow: list[str] = []
    for item in arguments.allow_different or ():
        allow += [key.strip() for key in item.split(",")]
    comparison = compare(read_side(a, "A"), read_side(b, "B"), allow)
    changes = _by_agent(comparison, arguments) if arguments.by else None
    judged, failed = [], []
    for gate in arguments.fail_if or ():
        found = comparison.difference(gate.metric, gate.cohort)
        if math.isnan(found.mean):  # no condition holds for NaN, so the gate would pass unseen
            raise ComparisonError(f"--fail-if {gate.text!r} cannot be decided: no scenario was scored on both sides")
        judged.append((gate, found))
        if gate.holds(found):
            failed.append(_reason(gate, found))
    rows, totals = comparison.rows(), comparison.totals()
    if arguments.json is not None:
        record = _record(comparison, rows, totals, judged)
        write_json(arguments.json, record if changes is None else record | {"by_agent": changes.to_dict()})
    _print(comparison, rows, totals)
    if changes is not None:
        _print_agents(changes)
    for reason in failed:
        say(reason)
    return 1 if failed else 0


@dataclass(frozen=True)
class ByAgent:
    """Comparison agent by agent.

    Attributes:
        agents: Changes by agent, the team's last.
        terms: Changes of the terms of the reward.
        divergences: Divergence of each agent's policies, or the reason why it has none.
        refused: Reason why no divergence was computed; empty if some was.
    """

    agents: Mapping[str, AgentChange]
    terms: Mapping[str, Change]
    divergences: Mapping[str, Divergence | str]
    refused: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = {}
        for agent, divergence in self.divergences.items():
            found[agent] = divergence if isinstance(divergence, str) else divergence.to_dict()
        return {
            "agents": {agent: change.to_dict() for agent, change in self.agents.items()},
            "terms": {name: change.to_dict() for name, change in self.terms.items()},
            "kl": found,
            "kl_refused": self.refused or None,
        }


def _by_agent(comparison: Comparison, arguments: argparse.Namespace) -> ByAgent:
    if len(comparison.a) != 1 or len(comparison.b) != 1:
        raise ComparisonError(
            f"--by agent compares two evaluations: found {len(comparison.a)} on side A and {len(comparison.b)} on B"
        )
    a, b = comparison.a[0], comparison.b[0]
    agents, terms = agent_changes(a, b)
    episodes = MOST_EPISODES if arguments.kl_episodes is None else arguments.kl_episodes
    if episodes < 1:
        raise ComparisonError(f"--kl-episodes = {episodes}, wanted >= 1")
    try:
        divergences = policy_divergence(a, b, episodes=episodes, trust=arguments.trust_config)
    except ComparisonError as error:  # what the records say holds without models, too
        return ByAgent(agents, terms, {}, str(error))
    return ByAgent(agents, terms, divergences, "")


def _sides(arguments: argparse.Namespace) -> tuple[Sequence[str], Sequence[str]]:
    """Return the places of the evaluations of A and of B."""
    sides, a, b = arguments.sides, arguments.a, arguments.b
    if len(sides) == 2 and a is None and b is None:
        return sides[:1], sides[1:]
    if not sides and a and b:
        return a, b
    named = [f"--{name} {' '.join(paths)}" for name, paths in (("a", a), ("b", b)) if paths]
    found = ", ".join([*sides, *named])
    raise ComparisonError(f"found {found or 'nothing'}, wanted two sides: A B, or --a PATH... --b PATH...")


def _reason(gate: Gate, found: PairedDifference) -> str:
    end = f" ({gate.end} end of the 95 % interval)" if gate.end else ""
    return f"failed: {gate.text}: the difference B - A is {gate.value(found):.4g}{end}; whole: {found.interval}"


def _record(
    comparison: Comparison,
    rows: Sequence[CohortComparison],
    totals: Mapping[str, Any],
    judged: Sequence[tuple[Gate, PairedDifference]],
) -> dict[str, Any]:
    """Return the JSON form of a comparison; numbers that are not finite are null."""
    of_rows = []
    for row in rows:
        difference = {name: _number(value) for name, value in row.difference._asdict().items()}
        of_row = {
            "cohort": None if row.cohort is None else dict([row.cohort]),
            "scenarios": row.scenarios,
            "a": _number(row.a),
            "b": _number(row.b),
            "difference": difference,
            "p_adjusted": _number(row.p_adjusted),
        }
        of_rows.append(of_row)
    means = {}
    for name, pair in totals.items():
        means[name] = {side: _number(value) for side, value in pair.items()}
    gates = []
    for gate, found in judged:
        gates.append({"condition": gate.text, "value": _number(gate.value(found)), "holds": gate.holds(found)})
    return {
        "schema": SCHEMA,
        "a": [str(one.path) for one in comparison.a],
        "b": [str(one.path) for one in comparison.b],
        "scenario_checksum": comparison.a[0].record["scenario_checksum"],
        "rows": of_rows,
        "means": means,
        "gates": gates,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print(comparison: Comparison, rows: Sequence[CohortComparison], totals: Mapping[str, Mapping[str, float]]) -> None:
    for side, found in (("A", comparison.a), ("B", comparison.b)):
        say(f"{side}: {', '.join(str(one.path) for one in found)}")
    table = Table("scenarios of", "number", "A", "B", "B - A [95 % interval]", "p", "detectable")
    for row in rows:
        name = "all" if row.cohort is None else "=".join(row.cohort)
        cells = [name, str(row.scenarios), f"{row.a:.3f}", f"{row.b:.3f}", str(row.difference.interval)]
        p = "-" if math.isnan(row.p_adjusted) else f"{row.p_adjusted:.3f}"
        if row.p_adjusted < 0.001:  # three digits would show it as zero
            p = "< 0.001"
        table.add_row(*cells, p, f"{row.difference.detectable:.3f}")
    console(width=TABLE_WIDTH).print(table)
    if len(rows) > 1:  # one p needs no adjustment
        say(f"p of the {len(rows) - 1} cohorts: Holm-adjusted together; detectable: at 80 % power")
    if "tokens" in totals:
        say("tokens per episode: A {a:.1f}, B {b:.1f}".format(**totals["tokens"]))
    if any(totals.get("violations", {}).values()):
        say("violations per episode: A {a:.3f}, B {b:.3f}".format(**totals["violations"]))
    if "leaks" in totals:
        say("episodes in which a secret leaked: A {a:.1%}, B {b:.1%}".format(**totals["leaks"]))
    say("failed episodes: A {a:.0f}, B {b:.0f}".format(**totals["failed_episodes"]))
    if len(comparison.a) == len(comparison.b) == 1:
        say("one training seed on each side: the interval holds for these two teams, not for their training")


def _print_agents(changes: ByAgent) -> None:
    table = Table("agent", "KL a token [95 %]", "tokens a turn", "B - A [95 %]", "tools apart", "loops A", "loops B")
    for agent, change in changes.agents.items():
        divergence = changes.divergences.get(agent)
        kl = str(divergence.kl) if isinstance(divergence, Divergence) else "-"
        tokens = ("-", "-")
        if change.tokens is not None:
            tokens = (f"{change.tokens.a:.1f} -> {change.tokens.b:.1f}", str(change.tokens.difference.interval))
        apart = "-" if change.distance is None else f"{change.distance:.3f}"
        looping = ("-", "-") if change.loops is None else (f"{change.loops.a:.3f}", f"{change.loops.b:.3f}")
        table.add_row(agent, kl, *tokens, apart, *looping)
    console(width=TABLE_WIDTH).print(table)
    if changes.refused:
        say(f"no KL: {changes.refused}")
    for agent, reason in changes.divergences.items():
        if isinstance(reason, str):
            say(f"no KL of {agent}: {reason}")
    shares = Table("agent", "tool", "share of the calls A", "B")
    for agent, change in changes.agents.items():
        for tool, pair in change.tools.items():
            shares.add_row(agent, tool, *("-" if share is None else f"{share:.3f}" for share in pair))
    if shares.rows:
        console(width=TABLE_WIDTH).print(shares)
    if changes.terms:
        terms = Table("term of the reward", "A", "B", "B - A [95 % interval]")
        for name, term in changes.terms.items():
            terms.add_row(name, f"{term.a:.3f}", f"{term.b:.3f}", str(term.difference.interval))
        console(width=TABLE_WIDTH).print(terms)
