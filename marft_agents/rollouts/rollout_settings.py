"""Settings of the workers that play episodes. They need no torch."""

from __future__ import annotations

from dataclasses import dataclass

from marft_agents.learning.settings import LearnerSettings
from marft_agents.setting_fields import SettingsError, check_knobs, knob

OFF = "none"  # no cluster: episodes are played in this process


@dataclass(frozen=True)
class RolloutSettings:
    """Where episodes are played: in this process, or by workers of a Ray cluster."""

    ray: str = knob(
        OFF,
        "play episodes by workers of a Ray cluster: local (start one on this machine), auto (join the one of this "
        "machine), or the HOST:PORT of its head; none: in this process",
        bool,
        "local, auto, HOST:PORT or none",
    )
    rollout_workers: int = knob(
        1, "number of workers, with --ray; 0: the learner plays, rank 0 of several", lambda v: v >= 0, ">= 0"
    )
    max_staleness: int = knob(
        0,
        "number of updates that workers may play ahead, with --ray; older episodes are dropped. 0: every update waits "
        "for its episodes",
        lambda v: v >= 0,
        ">= 0",
    )
    rollout_chunk: int = knob(
        0,
        "prompt groups played together as one batch, which decides the last digits of log-probs; 0: one by one with "
        "several workers or staleness, else all of an update",
        lambda v: v >= 0,
        ">= 0",
    )
    worker_cpus: int = knob(1, "CPU cores and threads of each worker", lambda v: v >= 1, ">= 1")
    worker_gpus: float = knob(0.0, "GPUs of each worker; may be a fraction", lambda v: v >= 0, ">= 0")

    def __post_init__(self) -> None:
        check_knobs(self)
        if self.ray == OFF and (self.rollout_workers > 1 or self.max_staleness):
            raise SettingsError(
                f"rollout_workers = {self.rollout_workers} and max_staleness = {self.max_staleness} are of the workers "
                "of a Ray cluster: give --ray local, auto or HOST:PORT"
            )
        if self.max_staleness and not self.rollout_workers:
            raise SettingsError(
                f"max_staleness = {self.max_staleness} needs workers that play ahead: wanted rollout_workers >= 1"
            )

    @property
    def chunk(self) -> int:
        """Number of prompt groups that are played together; 0: all of an update."""
        alone = self.rollout_workers <= 1 and not self.max_staleness
        return self.rollout_chunk or (0 if alone else 1)


def refuse_uncorrected(settings: LearnerSettings, max_staleness: int) -> None:
    """Raise SettingsError if an algorithm cannot correct for episodes of earlier versions.

    Importance weights correct the clipped objective and the KL penalty. They enter neither the likelihood of successful
    actions nor the ratios of the agents that were updated before.
    """
    reasons = []
    if settings.positive_nll:
        reasons.append(f"positive_nll = {settings.positive_nll}: the likelihood has no importance weight")
    if settings.compounding != "none":
        reasons.append(
            f"compounding = {settings.compounding!r}: ratios of other agents start from the current policy, not from "
            "the version that played"
        )
    if max_staleness and reasons:
        raise SettingsError(
            f"max_staleness = {max_staleness}: this algorithm cannot correct for episodes of earlier versions, wanted "
            f"0 ({'; '.join(reasons)})"
        )
