"""Connections that wait are closed at their deadline, though the timer of an event loop may fire before it."""

import time

from baselines.gateway.waiting_connections import WaitingConnections


def test_a_timer_that_fires_early_closes_the_connection_that_it_was_set_for():
    waiting, closed = WaitingConnections(seconds=60), []
    until = waiting.add("first", lambda: closed.append("first"))
    time.sleep(0.001)
    assert waiting.add("second", lambda: closed.append("second")) > until
    assert waiting.add("first", lambda: closed.append("again")) is None
    waiting.close_late()
    assert closed == []
    waiting.close_late(until)
    assert closed == ["first"]


def test_one_more_than_may_wait_closes_the_first():
    waiting, closed = WaitingConnections(most=2), []
    for name in ("first", "second", "third"):
        waiting.add(name, lambda name=name: closed.append(name))
    assert closed == ["first"]
    waiting.remove("second")
    waiting.add("fourth", lambda: closed.append("fourth"))
    assert closed == ["first"]
