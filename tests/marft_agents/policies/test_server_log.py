"""Why a server of `marft vllm` failed is read from its log."""

import pytest

from marft_agents.policies.server_log import last_error, log_path

URL = "http://127.0.0.1:8123/v1"
SERVING = '(APIServer pid=7) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK'
DEAD = (
    "(APIServer pid=7) ERROR 11-22 10:00:01 [async_llm.py:702] vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
    "encountered an issue. See stack trace (above) for the root cause."
)
CAUSE = "RuntimeError: CPU Generator does not use offset"


@pytest.fixture
def write_log(tmp_path, monkeypatch):
    monkeypatch.setenv("MARFT_CACHE", str(tmp_path))
    return lambda *lines: log_path(8123).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    "lines",
    [
        (SERVING, f"(EngineCore pid=9) ERROR 11-22 10:00:00 [core.py:1100] {CAUSE}", DEAD, SERVING),
        ("Traceback (most recent call last):", '  File "x.py", line 1', CAUSE),
        ("(Worker pid=9) ValueError: an older one", f"(Worker pid=9) {CAUSE}", "(Worker pid=9)"),
    ],
)
def test_the_cause_is_told_not_what_follows_from_it(write_log, lines):
    write_log(*lines)
    told = last_error(URL)
    assert told.endswith(f"ends with the error: {CAUSE}")
    assert str(log_path(8123)) in told
    assert last_error("http://localhost:8123/v1") == told


def test_a_consequence_is_better_than_nothing(write_log):
    write_log(SERVING, DEAD)
    assert "EngineDeadError" in last_error(URL)


def test_a_log_without_an_error(write_log):
    write_log(SERVING, "an Error: within a sentence is none")
    assert "has no error: it was stopped from outside" in last_error(URL)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8124/v1", "http://elsewhere:8123/v1", "http://127.0.0.1/v1", "http://127.0.0.1:x/v1"]
)
def test_servers_without_a_log_of_ours(write_log, url):
    write_log(CAUSE)
    assert last_error(url) == ""
