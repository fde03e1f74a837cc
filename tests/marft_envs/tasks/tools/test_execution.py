"""One call: whatever a tool does, the caller gets a result, and the state changes only where all went well."""

from __future__ import annotations

import json
import threading

import pytest

from marft_envs.tasks.tools import execution
from marft_envs.tasks.tools.definition import Tool
from marft_envs.tasks.tools.execution import ToolLimits, _stop, execute
from tests.helpers.toy_bank import LATER, STATE, Bank

START = json.dumps(STATE)


def run(name: str, limits: ToolLimits | None = None, **arguments):
    return execute(Bank, Bank.tools()[name], arguments, START, limits or ToolLimits(), caller="a_0")


def test_a_call_that_goes_well_changes_the_state():
    done = run("pay", source="A1", target="B2", amount=3)
    assert (done.status, done.text) == ("ok", '"paid"')
    state = json.loads(done.state)
    assert state["accounts"] == {"A1": 7, "B2": 8}
    assert state["log"] == [["a_0", "A1", "B2", 3]]
    assert json.loads(START) == STATE


def test_what_a_failed_call_did_does_not_stay():
    done = run("pay", source="A1", target="B2", amount=11)
    assert (done.status, done.text, done.state) == ("error", "A1 has not got 11", START)
    assert run("balance", account="Z").text == "accounts has no 'Z'"


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        ("raise", "error", "the tool failed: KeyError: 'inner'"),
        ("exit", "error", "the tool failed: SystemExit"),
        ("recurse", "error", "the tool failed: RecursionError"),
        ("nan", "error", "the tool failed: ValueError"),
        ("object", "error", "the tool failed: TypeError"),
        ("store", "too long", "it would store more than 1048576 characters"),
        ("nested", "too long", "its result is longer than 4096 characters"),
        ("100 MB", "too long", "its result is longer than 4096 characters"),
    ],
)
def test_a_tool_that_misbehaves_costs_an_error(how: str, status: str, message: str):
    done = run("misbehave", how=how)
    assert (done.status, done.state) == (status, START)
    assert message in done.text
    assert len(done.text) < 400


@pytest.mark.parametrize("how", ["loop", "wait"])
def test_a_tool_that_hangs_costs_its_time_and_leaves_no_thread(how: str, monkeypatch):
    def stop(worker: threading.Thread) -> None:
        LATER.set()  # first: CPython 3.11 under a tracer (coverage) stands still while a blocked thread is told to end
        _stop(worker)

    LATER.clear()
    monkeypatch.setattr(execution, "_stop", stop)
    done = run("misbehave", ToolLimits(timeout_s=0.2), how=how)
    assert (done.status, done.text, done.state) == ("timeout", "the tool gave no result in 0.2 s", START)
    for thread in threading.enumerate():
        if thread.name == "tool misbehave":
            thread.join(60)
            assert not thread.is_alive()


def test_a_result_that_just_fits_is_whole():
    tool = Tool("say", "Say.", {"type": "object", "properties": {}}, lambda: "x" * 8)
    assert execute(Bank, tool, {}, START, ToolLimits(result_chars=10)).status == "ok"
    assert execute(Bank, tool, {}, START, ToolLimits(result_chars=9)).status == "too long"


def test_a_result_holds_no_lone_surrogates():
    tool = Tool("say", "Say.", {"type": "object", "properties": {}}, lambda: chr(0xD800))
    assert execute(Bank, tool, {}, START, ToolLimits()).text == '"\N{REPLACEMENT CHARACTER}"'


def test_limits_are_positive():
    with pytest.raises(ValueError, match="timeout_s is 0"):
        ToolLimits(timeout_s=0)
