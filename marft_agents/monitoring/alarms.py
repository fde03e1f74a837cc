"""Training alarms: explosion, collapse, laziness and length drift per agent; stall and context per team.

The only input is metrics by name, one update after the other. Missing metrics are not watched. An alarm is raised when
its condition becomes true, and again only after the condition was false for a window of updates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from marft_agents.monitoring.alarm_rules import HealthSettings, Kind, shortened_prompts, stall, symptoms
from marft_agents.monitoring.metric_history import Series

KINDS: tuple[Kind, ...] = ("explosion", "collapse", "lazy", "length")
MEASURES = (
    "entropy",
    "kl",
    "ratio_max",
    "ratio_min",
    "compounded_ratio_max",
    "grad_norm",
    "tokens_mean",
    "cap_hit_share",
    "advantage_std",
    "same_share",
    "empty_share",
    "copied_share",
)
TEAM_MEASURES = ("return", "return_std", "group_return_std", "episodes", "success")
SOLVED = 0.95  # mean success over a window of updates from which a task counts as solved
NOTICEABLE = 0.25  # standard deviations of the returns: smaller rises of the mean return are no gain


@dataclass(frozen=True)
class Alarm:
    """An alarm about an agent or the team.

    Attributes:
        update: Index of the update, from 0.
        agent: Agent as in the names of its metrics; the adapter's name for metrics of a shared adapter; "team" for
            the whole team.
        kind: Kind of the alarm; "rollback" records the answer to an earlier one.
        measure: Name of the metric that met the rule.
        value: Value of the metric (a median where the rule takes one).
        threshold: Bound that the value crossed.
        sentence: Message with the meaning and advice.
    """

    update: int
    agent: str
    kind: Kind | Literal["divergence", "rollback"]
    measure: str
    value: float
    threshold: float
    sentence: str

    def __str__(self) -> str:
        return f"update {self.update + 1}: {self.kind} of {self.agent}: {self.sentence}"


class Health:
    """Watches the metrics of a run and raises alarms.

    Args:
        settings: Thresholds of the rules; None: the defaults.
    """

    def __init__(self, settings: HealthSettings | None = None) -> None:
        self.settings = settings or HealthSettings()
        self.series: dict[str, Series] = {}
        self.best = -math.inf  # mean return of the best window so far
        self.held: dict[str, int] = {}  # "agent/kind/measure" -> last update in which that condition held

    def observe(self, update: int, metrics: Mapping[str, float]) -> list[Alarm]:
        """Add an update's metrics to the history; return the alarms whose conditions have become true.

        Args:
            update: Index of the update, from 0.
            metrics: Values of `{agent}/{measure}` (see `MEASURES`) and `team/{measure}` (see `TEAM_MEASURES`).
        """
        agents = _agents(metrics)
        told = {agent: self._take(agent, MEASURES, metrics) for agent in agents}
        team = self._take("team", TEAM_MEASURES, metrics)
        pays, solved = self._standing(team)
        varied = [series["advantage_std"].now for series in told.values() if "advantage_std" in series]
        most_varied = max((v for v in varied if not math.isnan(v)), default=0.0)
        found = [("team", symptom) for symptom in stall(team) if not solved]
        for agent, series in told.items():
            held = symptoms(series, self.settings, pays=pays or solved, solved=solved, most_varied=most_varied)
            found += [(agent, symptom) for symptom in held]
        shortened = metrics.get("team/prompts_shortened", 0.0)
        found += [("team", symptom) for symptom in shortened_prompts(shortened, self.settings)]
        alarms = []
        for agent, symptom in found:
            key = f"{agent}/{symptom.kind}/{symptom.measure}"
            last = self.held.get(key)
            self.held[key] = update
            if last is None or update - last > self.settings.alarm_window:  # a condition that holds on is not repeated
                alarms.append(Alarm(update, agent, *symptom))
        return alarms

    def flags(self, update: int) -> dict[str, float]:
        """Return `{agent}/alarm_{kind}` for all agents: 1 where a condition of the kind held in the update, else 0.

        The team has `team/alarm_context` and, once returns were measured, `team/alarm_stall`.
        """
        result = {f"{agent}/alarm_{kind}": 0.0 for agent in _agents(self.series) for kind in KINDS}
        result["team/alarm_context"] = 0.0
        if "team/return_std" in self.series:
            result["team/alarm_stall"] = 0.0
        for key, last in self.held.items():
            agent, kind, _ = key.rsplit("/", 2)
            if last == update:
                result[f"{agent}/alarm_{kind}"] = 1.0
        return result

    def _take(self, agent: str, measures: tuple[str, ...], metrics: Mapping[str, float]) -> dict[str, Series]:
        """Append an agent's metrics to its series; return the series with a new value."""
        told = {}
        for measure in measures:
            name = f"{agent}/{measure}"
            if name in metrics:
                told[measure] = self.series.setdefault(name, Series(self.settings.alarm_window))
                told[measure].add(float(metrics[name]))
        return told

    def _standing(self, team: Mapping[str, Series]) -> tuple[bool, bool]:
        """Return two flags, `pays` and `solved`.

        - `pays`: The team earns more than at its start and about as much as ever.
        - `solved`: The team nearly always succeeds, with about the same return each time, and never earned more.
        """
        if "return" not in team or math.isnan(team["return"].now):
            return False, False
        returns = team["return"]
        now, start = float(np.mean(returns.last[-returns.window :])), float(np.mean(returns.first))
        self.best = max(self.best, now)
        spread = team["return_std"].now if "return_std" in team else 0.0
        margin = NOTICEABLE * spread
        at_best = now >= self.best - margin
        success = float(np.mean(team["success"].last[-returns.window :])) if "success" in team else 0.0
        return now > start + margin and at_best, success >= SOLVED and spread <= NOTICEABLE * abs(now) and at_best

    def state_dict(self) -> dict[str, Any]:
        """Return the history as a JSON-serialisable dictionary."""
        series = {name: [s.first, s.last] for name, s in self.series.items()}
        best = None if math.isinf(self.best) else self.best
        return {"series": series, "best": best, "held": dict(self.held)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.best = -math.inf if state["best"] is None else state["best"]
        self.held = dict(state["held"])
        self.series = {}
        for name, (first, last) in state["series"].items():
            self.series[name] = Series(self.settings.alarm_window)
            self.series[name].first, self.series[name].last = list(first), list(last)


def _agents(metrics: Mapping[str, Any]) -> list[str]:
    """Return the agents with a `tokens_mean` metric, which every agent whose actions have tokens has."""
    return [name.removesuffix("/tokens_mean") for name in metrics if name.endswith("/tokens_mean")]
