"""Alarm rules on the history of an agent's metrics: explosion, collapse, lazy agent, length drift.

Two rules are about the team: prompts shortened to the context window, and a stall. In a stall all compared returns are
equal, so nothing can be learned.

Most rules compare the newest values of a metric with the start of the run or with its usual level. No rule depends on
the task. docs/stability.md lists the healthy histories on which the thresholds were set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from marft_agents.learning import advantages
from marft_agents.monitoring.metric_history import Series
from marft_agents.setting_fields import check_knobs, knob

Kind = Literal["explosion", "collapse", "lazy", "length", "context", "stall"]
FEW_TOKENS = 3  # tokens of an action: an end token and a word or two
FEW_WORDS = 8  # tokens of an action: shorter ones may be right for every observation
TOKENS_APART = 4  # tokens: smaller differences of length are no drift, for any ratio
GRADIENT = 1.0  # gradient norm: lower bound on its usual level, for any history
FADED = 1e-3  # share of the gradient norm at the start: below it nothing is learned
NOISE = 1.0  # nats per token: a lower entropy is not noise, however far it rose
EXPLODING = ("kl", "ratio_max", "ratio_min", "compounded_ratio_max", "grad_norm", "entropy")


@dataclass(frozen=True)
class HealthSettings:
    """Settings of alarms: thresholds, and the number of rollbacks allowed."""

    rollback: int = knob(
        0,
        "at most so often, an explosion, a collapse or a NaN takes the run back to its last good checkpoint and halves "
        "the policies' step size; 0 only raises the alarm",
        lambda value: value >= 0,
        ">= 0",
    )
    alarm_window: int = knob(
        5,
        "updates whose median is judged; the first so many are the start it is compared with",
        lambda v: v >= 2,
        ">= 2",
    )
    alarm_spike: float = knob(
        20.0,
        "explosion: gradient norm, KL or ratio above this times its running median (a norm's counts as at least 1)",
        lambda v: v > 1,
        "> 1",
    )
    alarm_kl: float = knob(
        1.0, "explosion: a KL below this is none (nats per decision, within an update)", lambda v: v > 0, "> 0"
    )
    alarm_ratio: float = knob(
        1000.0, "explosion: probability ratios below this, and above its inverse, are none", lambda v: v > 1, "> 1"
    )
    alarm_compounded: float = knob(
        100.0,
        "explosion: product of the ratios of the agents updated before (compounding happo or bounded) above this",
        lambda v: v > 1,
        "> 1",
    )
    alarm_entropy_rise: float = knob(
        4.0, "explosion: entropy above this times its start, and above one nat per token", lambda v: v > 1, "> 1"
    )
    alarm_entropy_share: float = knob(
        0.02, "collapse: entropy below this share of its start", lambda v: 0 <= v < 1, "in [0, 1)"
    )
    alarm_idle_share: float = knob(
        0.95, "lazy: so many of its actions are one text, empty or copied", lambda v: 0 < v <= 1, "in (0, 1]"
    )
    alarm_advantage_share: float = knob(
        0.01, "lazy: advantages vary by less than this share of another agent's", lambda v: 0 <= v < 1, "in [0, 1)"
    )
    alarm_length: float = knob(2.0, "length: tokens per action up or down by this factor", lambda v: v > 1, "> 1")
    alarm_cap_rise: float = knob(
        0.5,
        "length: rise of the share of actions that the token limit cuts",
        lambda v: 0 < v <= 1,
        "in (0, 1]",
    )

    alarm_shortened: float = knob(
        0.01,
        "context: share of the prompts that were shortened to fit the context window above this",
        lambda v: 0 <= v <= 1,
        "in [0, 1]",
    )

    def __post_init__(self) -> None:
        check_knobs(self)


class Symptom(NamedTuple):
    """A rule that holds, with the metric that met it.

    Attributes:
        kind: Kind of the alarm.
        measure: Name of the metric that met the rule.
        value: Value of the metric (a median where the rule takes one).
        threshold: Bound that the value crossed.
        sentence: Message with the meaning and advice.
    """

    kind: Kind
    measure: str
    value: float
    threshold: float
    sentence: str


def symptoms(
    told: Mapping[str, Series], settings: HealthSettings, *, pays: bool, solved: bool, most_varied: float
) -> Iterator[Symptom]:
    """Yield the rules that hold for an agent.

    A change of behaviour may be the reason for a gain, so `pays` silences some rules. `solved` silences others: an
    agent that repeats itself may have nothing better to say.

    Args:
        told: Measure -> its history, for the metrics measured in this update.
        settings: Thresholds of the rules.
        pays: True if the team earns more than at its start and about as much as ever.
        solved: True if the team nearly always succeeds.
        most_varied: Largest median standard deviation of the advantages of any agent of the team.
    """
    for measure, series in told.items():
        if measure == "grad_norm" and not pays:
            yield from _faded(series)
        if measure in EXPLODING and math.isnan(series.last[-1]):
            advice = "go back to an earlier checkpoint with a lower policy_lr"
            yield Symptom("explosion", measure, math.nan, math.inf, f"{measure} is not a number: {advice}")
        elif measure == "entropy":
            yield from _entropy(series, settings, pays)
        elif measure == "compounded_ratio_max":
            yield from _compounded(series, settings)
        elif measure in EXPLODING:
            yield from _spike(measure, series, settings)
        elif measure == "empty_share" or (measure in ("same_share", "copied_share") and not solved):
            short = "tokens_mean" in told and told["tokens_mean"].now < FEW_WORDS
            yield from _idle(measure, series, settings, excused=pays and short)
        elif measure == "advantage_std" and not solved:
            yield from _unmoved(series, most_varied, settings)
        elif measure == "tokens_mean":
            yield from _length(series, settings, pays)
        elif measure == "cap_hit_share" and not pays:
            yield from _capped(series, settings)


def shortened_prompts(share: float, settings: HealthSettings) -> Iterator[Symptom]:
    """Yield the rule about prompts that exceed the context window, for the whole team.

    Args:
        share: Share of the update's prompts that were shortened, in [0, 1].
        settings: Thresholds of the rules.
    """
    if share > settings.alarm_shortened:
        yield Symptom(
            "context",
            "prompts_shortened",
            share,
            settings.alarm_shortened,
            f"{share:.1%} of the prompts were shortened: agents do not read all that they are shown; raise "
            "context_window, lower max_new_tokens, or choose a shorter form of communication",
        )


def stall(team: Mapping[str, Series]) -> Iterator[Symptom]:
    """Yield the stall rule, for a team that has not solved its task: no return differed for a window of updates.

    Args:
        team: Measure -> its history: `return`, `episodes`, `return_std` and, with several episodes per group,
            `group_return_std`.
    """
    measure = "group_return_std" if "group_return_std" in team else "return_std"
    if measure not in team:
        return
    series = team[measure]
    most = max(series.last[-series.window :])
    if len(series.last) < series.window or not most <= advantages.SMALLEST_SPREAD:
        return
    if "episodes" in team and max(team["episodes"].last[-series.window :]) <= 1:
        told = "there is one episode per update, and nothing to compare it with: raise groups or group_size"
    elif measure == "group_return_std" and max(team["return_std"].last[-series.window :]) > advantages.SMALLEST_SPREAD:
        told = (
            f"in no task draw of the last {series.window} updates did the returns differ: what the team does changes "
            "nothing; raise group_size, or choose tasks that it solves sometimes"
        )
    else:
        told = (
            f"all episodes of the last {series.window} updates returned {team['return'].now:.3g}: nothing tells a good "
            "action from a bad one. Look whether the reward is out of reach, and whether it sums to zero over the "
            "agents: the team is paid their mean. In a game of opponents train one side and give the others a fixed "
            "policy"
        )
    yield Symptom("stall", measure, most, advantages.SMALLEST_SPREAD, told)


def _spike(measure: str, series: Series, settings: HealthSettings) -> Iterator[Symptom]:
    """Yield an explosion where a value is far above its running median and above the usual level of any run."""
    value, running, usual = series.last[-1], series.running, GRADIENT
    if measure == "grad_norm":
        if math.isnan(running):  # the first gradient norm has no history
            return
        limit = settings.alarm_spike * max(usual, running)
    elif measure == "ratio_min":  # compared as its inverse
        value, running = _inverse(value), _inverse(running)
        limit = max(settings.alarm_ratio, _known(settings.alarm_spike * running))
    else:
        limit = settings.alarm_ratio if measure == "ratio_max" else settings.alarm_kl
        limit = max(limit, _known(settings.alarm_spike * running))
    if value > limit:
        shown = "1 / ratio_min" if measure == "ratio_min" else measure
        yield Symptom(
            "explosion",
            measure,
            value,
            limit,
            f"{shown} is {value:.3g}, above {limit:.3g}: one update moved the policy too far; lower policy_lr or "
            "ppo_epochs, or set kl_stop",
        )


def _compounded(series: Series, settings: HealthSettings) -> Iterator[Symptom]:
    """Yield an explosion where the ratios of earlier agents scale an advantage up too far, whatever is usual."""
    value, limit = series.last[-1], settings.alarm_compounded
    if value > limit:
        yield Symptom(
            "explosion",
            "compounded_ratio_max",
            value,
            limit,
            f"an advantage was multiplied by {value:.3g}, the product of the ratios of the agents updated before, "
            f"above {limit:.3g}: few episodes decide the step; lower policy_lr or ppo_epochs, or choose compounding "
            "bounded",
        )


def _faded(series: Series) -> Iterator[Symptom]:
    most, limit = max(series.last[-series.window :]), FADED * series.start
    if len(series.last) > series.window and most < limit:
        yield Symptom(
            "collapse",
            "grad_norm",
            most,
            limit,
            f"no gradient norm of the last {series.window} updates was above {most:.3g}, after {series.start:.3g} at "
            "the start: nothing is learned any more; look whether episodes still differ in their return",
        )


def _entropy(series: Series, settings: HealthSettings, pays: bool) -> Iterator[Symptom]:
    value, start, now = series.last[-1], series.start, series.now
    most, least = max(NOISE, settings.alarm_entropy_rise * start), settings.alarm_entropy_share * start
    if value > most and not math.isnan(start):
        yield Symptom(
            "explosion",
            "entropy",
            value,
            most,
            f"entropy is {value:.3g} nats per token after {start:.3g} at the start: the policy is turning into noise; "
            "lower policy_lr or entropy_bonus",
        )
    if now < least and not pays:
        yield Symptom(
            "collapse",
            "entropy",
            now,
            least,
            f"entropy is {now:.3g} nats per token after {start:.3g} at the start, and the team earns no more for it: "
            "nothing is explored any more; go back to an earlier checkpoint with an entropy_bonus, a lower policy_lr "
            "or a higher clip_high",
        )


def _idle(measure: str, series: Series, settings: HealthSettings, *, excused: bool) -> Iterator[Symptom]:
    """Yield a collapse or lazy agent for repeated, empty or copied actions.

    A short action that is always the same may be the one that pays (`excused`).
    """
    now, limit = series.now, settings.alarm_idle_share
    if not now >= limit:
        return
    if measure == "same_share" and series.start < limit:
        if excused:
            return
        yield Symptom(
            "collapse",
            measure,
            now,
            limit,
            f"{now:.0%} of the actions are one text, whatever the agent sees: go back to an earlier checkpoint with an "
            "entropy_bonus or a lower policy_lr",
        )
        return
    what = {"same_share": "one text, whatever the agent sees", "empty_share": "empty", "copied_share": "copies"}
    advice = "the team plays without it: look at its prompt and at what it is shown, or reward it for more"
    yield Symptom("lazy", measure, now, limit, f"{now:.0%} of the actions are {what[measure]}; {advice}")


def _unmoved(series: Series, most_varied: float, settings: HealthSettings) -> Iterator[Symptom]:
    now, limit = series.now, settings.alarm_advantage_share * most_varied
    if now < limit:
        yield Symptom(
            "lazy",
            "advantage_std",
            now,
            limit,
            f"advantages vary by {now:.3g} where another agent's vary by {most_varied:.3g}: what it does changes "
            "nothing; look at who sees its actions",
        )


def _length(series: Series, settings: HealthSettings, pays: bool) -> Iterator[Symptom]:
    now, before, start = series.now, series.before, series.start
    if pays:
        return
    if now <= FEW_TOKENS < TOKENS_APART <= start - now:
        yield Symptom(
            "lazy",
            "tokens_mean",
            now,
            FEW_TOKENS,
            f"actions have {now:.1f} tokens after {start:.1f} at the start: it hardly says anything any more; look at "
            "its actions and at what the reward charges for length",
        )
    factor = settings.alarm_length
    if math.isnan(before) or abs(now - before) < TOKENS_APART or before / factor < now < before * factor:
        return
    grew = now > before
    yield Symptom(
        "length",
        "tokens_mean",
        now,
        before * factor if grew else before / factor,
        f"actions have {now:.1f} tokens after {before:.1f} before, and the team earns no more for it: "
        + ("look for repetition, or charge for length" if grew else "look at what is left out"),
    )


def _capped(series: Series, settings: HealthSettings) -> Iterator[Symptom]:
    now, limit = series.now, series.before + settings.alarm_cap_rise
    if now >= limit:
        yield Symptom(
            "length",
            "cap_hit_share",
            now,
            limit,
            f"the token limit cuts {now:.0%} of the actions after {series.before:.0%} before: look for repetition, or "
            "raise max_new_tokens",
        )


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value
