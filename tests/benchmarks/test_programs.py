"""The benchmark of the server of programs runs and prints what it measured."""

from benchmarks import programs


def test_the_server_answers_all_requests(capsys):
    programs.main(["--requests", "128"])
    assert capsys.readouterr().out.endswith("64 open, 128 requests\n")
