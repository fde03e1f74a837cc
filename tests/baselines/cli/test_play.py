"""`marft show` and `marft play` on codeforces: the scripted policy knows the embedded problems' programs."""

import json

import pytest

from baselines.cli.main import main
from marft_envs.sandbox.shared_judges import close_shared_judges

SOLO, TRIO = "marft/codeforces_solo-v1", "marft/codeforces_trio-v1"


@pytest.fixture(autouse=True)
def _end_judges():
    yield
    close_shared_judges()


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_show_prints_the_prompts_of_the_trio(capsys):
    code, out, _ = run(capsys, "show", TRIO)
    assert code == 0
    assert "You are the tester of a team" in out
    assert "Example 1, input:" in out


def test_scripted_play_solves_an_embedded_problem(capsys):
    code, out, _ = run(capsys, "play", SOLO, "--policy", "scripted", "--index", "2", "--judge", "landlock")
    assert code == 0
    assert "team reward 1;" in out


def test_scripted_play_says_so_where_it_knows_no_program(capsys, tmp_path):
    path = tmp_path / "own.jsonl"
    row = {"id": "x", "description": "Double.", "official_tests": [{"input": "1", "output": "2"}]}
    path.write_text(json.dumps(row))
    code, _, err = run(capsys, "play", SOLO, "--policy", "scripted", "--data", path)
    assert code != 0
    assert "knows programs for embedded problems only, not for 'x'" in err


def test_a_backend_that_does_not_exist_is_one_clear_line(capsys):
    code, _, err = run(capsys, "play", SOLO, "--policy", "scripted", "--judge", "dokcer")
    assert code != 0
    assert "dokcer" in err
    assert "docker" in err
    assert "Traceback" not in err
