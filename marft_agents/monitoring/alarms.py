"""Is a run healthy? Alarms per agent for explosion, collapse, lazy agents and drifting lengths; per team for a stall.

Nothing but numbers comes in: the metrics of one update after the other, by name. What is missing is not watched. An
alarm is raised when its condition becomes true, and again only after the condition was false for a window of updates.
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
    *("entropy", "kl", "ratio_max", "ratio_min", "grad_norm", "tokens_mean", "cap_hit_share"),
    *("advantage_std", "same_share", "empty_share", "copied_share"),
)
TEAM_MEASURES = ("return", "return_std", "group_return_std", "episodes", "success")
SOLVED = 0.95  # mean success of a window of updates from which on a team has solved its task
NOTICEABLE = 0.25  # of the returns' standard deviation: by how much a mean return must rise to be a gain


@dataclass(frozen=True)
class Alarm:
    """Something about an agent that needs a look.

    Attributes:
        update: index of the update.
        agent: whose, as in the names of its metrics; the adapter's name for what agents with one adapter share; "team"
            for what concerns all.
        kind: of the trouble; "rollback" records what was done about it.
        measure: the metric that told.
        value: what it was (a median where the rule takes one).
        threshold: what it was held against.
        sentence: what it means and what to do.
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
    """Watches the metrics of a run.

    Args:
        settings: thresholds.
    """

    def __init__(self, settings: HealthSettings | None = None) -> None:
        self.settings = settings or HealthSettings()
        self.series: dict[str, Series] = {}
        self.best = -math.inf  # mean return of the best window so far
        self.held: dict[str, int] = {}  # "agent/kind/measure" -> last update in which that condition held

    def observe(self, update: int, metrics: Mapping[str, float]) -> list[Alarm]:
        """Take in an update's metrics; return the alarms whose conditions have become true.

        Args:
            update: index of the update.
            metrics: `{agent}/{measure}` (see `MEASURES`) and `team/{measure}` (see `TEAM_MEASURES`).
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
        return [
            Alarm(update, agent, *symptom)
            for agent, symptom in found
            if self._is_new(update, f"{agent}/{symptom.kind}/{symptom.measure}")
        ]

    def flags(self, update: int) -> dict[str, float]:
        """Return `{agent}/alarm_{kind}` for all agents: 1 where a condition of the kind held in the update, else 0.

        And `team/alarm_stall`.
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
        """Append an agent's metrics to its series; return those that were told."""
        told = {}
        for measure in measures:
            name = f"{agent}/{measure}"
            if name in metrics:
                told[measure] = self.series.setdefault(name, Series(self.settings.alarm_window))
                told[measure].add(float(metrics[name]))
        return told

    def _is_new(self, update: int, key: str) -> bool:
        last, self.held[key] = self.held.get(key), update
        return last is None or update - last > self.settings.alarm_window

    def _standing(self, team: Mapping[str, Series]) -> tuple[bool, bool]:
        """Return whether it pays (the team earns more than at its start and about as much as ever), and is solved.

        Solved: the team nearly always succeeds, for about the same return each time, and never earned more.
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
        """Return the history as JSON."""
        series = {name: [s.first, s.last] for name, s in self.series.items()}
        best = None if math.isinf(self.best) else self.best
        return {"series": series, "best": best, "held": dict(self.held)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.best = -math.inf if state["best"] is None else state["best"]
        self.held = dict(state["held"])
        self.series = {}
        for name, (first, last) in state["series"].items():
            self.series[name] = Series(self.settings.alarm_window)
            self.series[name].first, self.series[name].last = list(first), list(last)


def _agents(metrics: Mapping[str, Any]) -> list[str]:
    """Return whose length is told: of every agent that plays tokens it is."""
    return [name.removesuffix("/tokens_mean") for name in metrics if name.endswith("/tokens_mean")]
