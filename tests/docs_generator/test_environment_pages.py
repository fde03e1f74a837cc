"""The committed pages of the environments are what the environments say of themselves, and their examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import marft_envs
from docs_generator import environment_pages as pages
from marft_envs.registration.plugins import UNLISTED

WRITTEN = ["README.md", *(f"{task}.md" for task in pages.FAMILIES)]


@pytest.fixture(scope="module")
def made():
    return pages.pages()


@pytest.mark.parametrize("name", WRITTEN)
def test_the_committed_page_is_what_the_command_makes(name, made):
    assert (pages.FOLDER / name).read_text(encoding="utf-8") == made[name], (
        "run python -m docs_generator.environment_pages"
    )


def test_no_page_is_left_over():
    assert sorted(path.name for path in pages.FOLDER.iterdir()) == sorted(WRITTEN)


def test_every_task_of_ours_has_a_page():
    specs = [marft_envs.spec(id) for id in marft_envs.envs() if id.startswith("marft/")]
    ours = {spec.task for spec in specs if spec.plugin not in UNLISTED}  # docs/worlds.md has the others
    assert {f"{task}.md" for task in ours} | {"README.md"} == set(WRITTEN)


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "README.md"])
def test_a_page_says_what_a_user_must_know(name, made):
    page = made[name]
    ladder = re.search(r"^## The ladder\n.*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert page.count("\n") - (ladder[0].count("\n") if ladder else 0) < 170
    assert "flowchart LR" in page
    assert "## Version history\n\n- v0" in page
    keywords = set(re.findall(r"^\| `(\w+)` \| `.*?` \| \S", page, re.MULTILINE))  # with a meaning each
    assert keywords >= {"data", "split", "team", "dependency", "horizon", "reward", "feedback", "communication"}
    assert set(re.findall(r"^\| `(\w+)` \| `", page, re.MULTILINE)) == keywords
    example, *others = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(example, names)
    env = names["env"]
    assert env.unwrapped.metadata["name"] in page
    prompts = [env.unwrapped.tasks[place].prompt for place in range(len(env.unwrapped.tasks))]
    # the data of bfcl is not ours to print; of drawn tasks a part is shown; of tau2 it is private
    unshown = (
        "bfcl.md",
        "recall.md",
        "shards.md",
        "profile.md",
        "tau2_airline.md",
        "tau2_retail.md",
        "tau2_telecom.md",
    )
    assert any(prompt in page for prompt in prompts) == (name not in unshown)
    for other in others:  # go on from the first
        exec(other, names)


def test_check_says_what_would_change_and_writing_mends_it(tmp_path, capsys, monkeypatch, made):
    monkeypatch.setattr(pages, "pages", lambda: made)  # made once: it takes a second
    assert pages.main(["--check", "--dir", str(tmp_path)]) == 1
    assert (
        f"{tmp_path / 'math.md'} would change: run python -m docs_generator.environment_pages"
        in capsys.readouterr().out
    )
    assert pages.main(["--dir", str(tmp_path)]) == 0
    assert pages.main(["--check", "--dir", str(tmp_path)]) == 0
    stale = Path(tmp_path / "math.md")
    stale.write_text(stale.read_text() + "more\n")
    assert pages.main(["--check", "--dir", str(tmp_path)]) == 1
    assert [line.split(" would")[0] for line in capsys.readouterr().out.splitlines()[-1:]] == [str(stale)]
