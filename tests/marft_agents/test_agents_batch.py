"""Samples made from links of the chain."""

from __future__ import annotations

import numpy as np

from marft_agents.learning.batch import Link
from marft_agents.trajectory import Action, Turn


def test_a_sample_has_the_log_probs_and_the_credit_it_was_given_else_the_recorded_ones_and_its_advantages():
    recorded, scored, bare = (np.array([x, x], np.float32) for x in (-1.0, -2.0, -3.0))
    action = Action("x", np.zeros(1, np.int32), np.array([4, 5], np.int32), recorded, True)
    turn = Turn("a_0", action, 1.0, 3)
    values, returns, advantages, credit = (np.array([x]) for x in (0.1, 0.2, 0.3, 0.4))
    plain = Link(7, turn).sample(values, returns, advantages)
    assert (plain.agent, plain.episode, plain.round, plain.positive) == ("a_0", 7, 3, False)
    assert plain.action is action
    assert [plain.values, plain.returns, plain.advantages, plain.credit] == [values, returns, advantages, advantages]
    assert plain.old is recorded
    assert plain.reference is None
    full = Link(7, turn, old=scored, reference=bare).sample(values, returns, advantages, credit=credit, positive=True)
    assert [full.values, full.returns, full.advantages, full.credit] == [values, returns, advantages, credit]
    assert full.old is scored
    assert full.reference is bare
    assert full.positive
