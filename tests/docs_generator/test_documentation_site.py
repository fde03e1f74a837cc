"""The source of the site: links, lists, navigation, generated pages. `make docs` builds it strictly."""

from __future__ import annotations

import argparse
import json
import re

import pytest

from baselines.cli.main import COMMANDS
from docs_generator import reference_pages
from docs_generator.environment_pages import teams_of
from docs_generator.formulas import math_block
from docs_generator.markdown_dialect import python_markdown, relinked
from docs_generator.source_tree import ROOT, assemble, place_of
from docs_generator.versions import read_version, write_list
from marft_agents.learning.settings import LearnerSettings
from marft_agents.metric_names import LEDGER


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The source of the whole site, with a picture of every team: seconds."""
    return assemble(reference_pages.pages(), tmp_path_factory.mktemp("drawings"))


def test_lists_get_four_spaces_a_level_and_a_blank_line_before():
    assert python_markdown("Some:\n- a\n  - b\n    more\n- c\n") == "Some:\n\n- a\n    - b\n        more\n- c\n"
    assert python_markdown("1. one\n\n   ```python\n   if x:\n       y\n   ```\n   end\n2. two\n") == (
        "1. one\n\n    ```python\n    if x:\n        y\n    ```\n    end\n\n2. two\n"
    )


def test_a_block_with_a_file_name_shows_it():
    assert python_markdown("<!-- file: a.json -->\n```json\n{}\n```\n") == '```json title="a.json"\n{}\n```\n'


def test_code_in_tables_has_no_backslash_before_a_bar():
    assert python_markdown("| `a\\|b` | c\\|d |\n") == "| `a|b` | c\\|d |\n"


def test_links_are_replaced_but_not_in_code():
    def place(path):
        return f"<{path}>"

    code = "`[e](f.md)` [g](https://h.org) [i](#j)\n```python\nk[0](l)\n```\n"
    assert relinked(f"[a](x.md#b) [`c`](../d.py) {code}[m](n.md)", "docs/p.md", place) == (
        f"[a](<docs/x.md>#b) [`c`](<d.py>) {code}[m](<docs/n.md>)"
    )


def test_a_link_to_no_file_is_refused(monkeypatch, tmp_path):
    from docs_generator import source_tree

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("[b](b.md)", encoding="utf-8")
    monkeypatch.setattr(source_tree, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"docs/a.md links to docs/b.md"):
        source_tree._add_page(source_tree.SourceTree(), "docs/a.md")


def test_formulas_become_mathml():
    assert re.search(r"<math [^>]*display=\"block\".*<mi>x</mi>", math_block("x^2"))


@pytest.mark.long
def test_every_page_of_the_repository_is_on_the_site_and_in_the_navigation(tree):
    shown = re.findall(r"'([\w./-]+\.md)'", str(tree.nav))
    assert len(shown) == len(set(shown))
    for path in (ROOT / "docs").rglob("*.md"):
        assert place_of(path.relative_to(ROOT).as_posix()) in shown
    assert set(shown) == {place for place in tree.pages if not place.startswith("source/")}


@pytest.mark.long
def test_a_page_without_a_row_in_the_index_is_shown_under_more(tree):
    from docs_generator.source_tree import navigation

    tree.pages["new_page.md"] = "# A new page\n"
    try:
        assert navigation(tree)["More"] == {"A new page": "new_page.md"}
    finally:
        del tree.pages["new_page.md"]


@pytest.mark.long
def test_every_command_and_flag_has_its_line(tree):
    assert {f"reference/commands/{name}.md" for name in COMMANDS} <= set(tree.pages)
    assert "| `--group-size INT` |" in tree.pages["reference/commands/train.md"]
    assert "\n## marft sandbox check\n" in tree.pages["reference/commands/sandbox.md"]


def test_a_page_of_a_command_shows_groups_defaults_and_subcommands():
    parser = argparse.ArgumentParser(prog="marft")
    commands = parser.add_subparsers()
    one = commands.add_parser("one", help="do a thing")
    one.add_argument("ID", help="what to do it to")
    one.add_argument("--much", type=int, default=3, metavar="N", help="how much (default: %(default)s)")
    one.add_argument("--kind", choices=("a", "b"), help="a|b")
    one.add_argument("--secret", help=argparse.SUPPRESS)
    page = reference_pages.command_pages(parser)["reference/commands/one.md"]
    assert "Do a thing." in page
    assert "| `--much N` | how much (default: 3) |" in page
    assert r"| `--kind a, b` | a\|b |" in page
    assert "secret" not in page.replace("--secret SECRET", "")


@pytest.mark.long
def test_every_setting_and_metric_has_its_line(tree):
    assert "## LearnerSettings" in tree.pages["reference/settings.md"]
    for name in LearnerSettings.__dataclass_fields__:
        assert f"| `--{name.replace('_', '-')}` |" in tree.pages["reference/settings.md"]
    for name in LEDGER:
        assert f"| `AGENT/{name}` |" in tree.pages["reference/metrics.md"]


BY_READERS = {"profile": {"whole2", "holders2"}, "shards": {"solo2", "readers2"}}  # teams are named by their size


@pytest.mark.long
def test_every_environment_has_a_picture_of_each_team(tree):
    for place in tree.pages:
        if re.fullmatch(r"environments/(?!index)\w+\.md", place):
            task = place.split("/")[1].removesuffix(".md")
            assert BY_READERS.get(task, {"solo", "duo"}) <= set(teams_of(task))
            for team in teams_of(task):
                assert f"({task}_{team}.svg)" in tree.pages[place]
                assert (tree.copied[f"environments/{task}_{team}.svg"]).read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.long
def test_llms_txt_lists_the_pages_and_begins_with_the_page_for_agents(tree):
    text = tree.copied["llms.txt"]
    assert text.startswith("# MARFT\n\n> ")
    assert text.index("(agents/)") < text.index("## Tutorial")
    listed = re.findall(r"^- \[[^\]]+\]\(([\w./-]+)\): \S", text, re.MULTILINE)
    assert {"learner/", "tutorial/play/", "overview/", "environments/"} <= set(listed)


# ------------------------------------------------------------------ versions


def test_versions_are_listed_newest_first_and_the_start_leads_to_the_newest_release(tmp_path):
    for name in ("0.9", "0.10", "dev", "assets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    (tmp_path / "0.11").mkdir()  # not built
    assert write_list(tmp_path) == ["dev", "0.10", "0.9"]
    listed = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [entry["version"] for entry in listed] == ["dev", "0.10", "0.9"]
    assert [entry["aliases"] for entry in listed] == [[], ["latest"], []]
    start = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'content="0; url=0.10/"' in start
    assert re.findall(r'href="([^"]+)"', start) == ["dev/", "0.10/", "0.9/"]


@pytest.mark.parametrize("text", ["", "v0.2", "0.2rc1", "../0.2", "0.2/x"])
def test_a_version_is_no_path_and_no_tag(text):
    with pytest.raises(ValueError, match="wanted numbers with dots, like 0"):
        read_version(text)
