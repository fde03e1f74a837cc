"""Protocol of the ranks of a learner: rank 0 sends each update, and all others take part in it.

Between updates only rank 0 runs a model. Where its bases are sharded, it calls the others to each of these passes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.ranks import Ranks
from marft_agents.policies.token_log_probs import action_hidden
from marft_agents.trajectory import Trajectory

if TYPE_CHECKING:
    from marft_agents.learning.learner import Learner


class Snapshot(NamedTuple):
    """All that an update changes.

    Attributes:
        adapters: Weights of the policies, from `pack_adapters`.
        state: `Learner.state_dict`, as `torch.save` writes it.
    """

    adapters: Mapping[str, bytes]
    state: bytes


class Work(NamedTuple):
    """An update that rank 0 sends to the others.

    Attributes:
        trajectories: Episodes of the update.
        start: Weights and state that it starts from. So after a resume or a rollback all ranks have them.
        step_scale: Factor on the policies' step size.
        progress: Share of the run that is done, see `Learner`.
        tokens: Most distinct tokens of a pass; None: any number.
    """

    trajectories: Sequence[Trajectory]
    start: Snapshot
    step_scale: float
    progress: float | None
    tokens: int | None


class Pass(NamedTuple):
    """A pass of rank 0 outside of updates, for which it gathers the weights that are on other ranks.

    Attributes:
        base: Number of the base among those of the team.
    """

    base: int


NO_WORK: Work | Pass | None = None


def follow(learner: Learner) -> None:
    """Take part in the updates of rank 0, as one of the other ranks, until it calls `release`.

    Where the bases are sharded, also take part in each pass of rank 0 between updates.
    """
    while (work := learner.ranks.broadcast(NO_WORK)) is not None:
        if isinstance(work, Pass):
            base = learner.team.bases[work.base]
            # Of no tokens: this rank only has to gather the layers along with rank 0.
            with torch.no_grad():
                action_hidden(base.trunk, [], [], base.device)
            continue
        learner.restore(work.start)
        learner.step_scale, learner.progress = work.step_scale, work.progress
        learner.limit_passes(work.tokens)
        with contextlib.suppress(DivergenceError):  # rank 0 raises it too, and decides
            learner.update(work.trajectories)


def release(ranks: Ranks) -> None:
    """End `follow` on all other ranks; called by rank 0 after its last update."""
    ranks.broadcast(NO_WORK)


def send(learner: Learner, trajectories: Sequence[Trajectory], start: Snapshot) -> None:
    """Send the other ranks the episodes of an update and all that it starts from; only rank 0 sends."""
    ranks = learner.ranks
    if ranks.count > 1 and not ranks.rank:
        ranks.broadcast(Work(trajectories, start, learner.step_scale, learner.progress, learner.pass_size.tokens))


def announce_passes(learner: Learner) -> None:
    """Call the other ranks to each pass of a sharded base between updates; only rank 0 calls."""
    if not learner.ranks.in_step or learner.ranks.rank:
        return

    def announce(number: int, *_: Any) -> None:
        if not learner.updating:  # in an update the others run the same passes already
            learner.ranks.broadcast(Pass(number))

    for number, base in enumerate(learner.team.bases):
        base.trunk.register_forward_pre_hook(partial(announce, number))
