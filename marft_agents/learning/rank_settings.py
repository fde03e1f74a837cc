"""Settings of data-parallel learners. They need no torch."""

from __future__ import annotations

from dataclasses import dataclass

from marft_agents.setting_fields import SettingsError, check_knobs, knob


@dataclass(frozen=True)
class RankSettings:
    """Number of data-parallel learners, and what each needs."""

    learners: int = knob(
        1,
        "processes that share the passes of each update, with --ray: rank 0 plays, or its rollout workers do, and "
        "writes the run",
        lambda v: v >= 1,
        ">= 1",
    )
    learner_cpus: int = knob(1, "CPU cores and threads of each of several learners", lambda v: v >= 1, ">= 1")
    learner_gpus: int = knob(0, "GPUs of each of several learners; 0: on the CPU", lambda v: v in (0, 1), "0 or 1")
    shard_base: bool = knob(
        False,
        "keep 1 / learners of each decoder layer of the frozen bases on each learner (FSDP2); for bases too "
        "large for one GPU",
    )

    def __post_init__(self) -> None:
        check_knobs(self)
        if self.shard_base and self.learners == 1:
            raise SettingsError(
                "shard_base = True shards the bases over several learners, found 1: give --learners 2 or more, or "
                "--no-shard-base"
            )
