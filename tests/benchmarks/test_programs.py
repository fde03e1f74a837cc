"""The benchmark of the server of programs runs and prints what it measured."""

import pytest

from benchmarks import programs


@pytest.mark.long
def test_the_server_answers_all_requests(capsys):
    programs.main(["--requests", "128", "--episodes", "4", "--repetitions", "1", "--model", "tiny"])
    requests, rollouts = capsys.readouterr().out.splitlines()
    assert requests.endswith("64 open, 128 requests")
    assert rollouts.startswith("tokens per CPU-second: program ")
