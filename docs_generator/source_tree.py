"""Assemble the source of the documentation site: the pages of the repository, and pages generated from the code.

The pages in `docs/` are read on code hosts too. Here their links to files of the repository become links to pages of
the site: a linked program gets a page that shows its text. Navigation and `llms.txt` follow the tables of
`docs/README.md`, so a new page needs a row there and nothing else.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import marft_envs
from docs_generator.environment_pages import teams_of
from docs_generator.markdown_dialect import python_markdown, relinked
from marft_envs.dependency import drawing
from marft_envs.dependency.base import Roster
from marft_envs.environment_capabilities import dependency_game

ROOT = Path(__file__).parents[1]
MOVED = {  # pages of the repository outside of docs/ -> their place on the site
    "README.md": "overview.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changes.md",
    "examples/README.md": "examples/index.md",
}
MERMAID = "assets/mermaid.min.js"
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".jsonl": "json", ".c": "c"}
GENERATED = {  # pages that have no row in docs/README.md, by the section that they end
    "Reference": {
        "Commands": "reference/commands/index.md",
        "Settings": "reference/settings.md",
        "Metrics": "reference/metrics.md",
        "File formats": "reference/files.md",
        "Python API": "reference/api/index.md",
    },
    "Project": {
        "Contributing": "project/contributing.md",
        "Security": "project/security.md",
        "Changes": "project/changes.md",
    },
}


@dataclass
class SourceTree:
    """Files of the site by path; pages are text, other files are copied.

    Attributes:
        pages: Text of each page by its path on the site.
        copied: File in the repository, or text, by its path on the site.
        nav: The key `nav` of mkdocs.yml.
    """

    pages: dict[str, str] = field(default_factory=dict)
    copied: dict[str, Path | str] = field(default_factory=dict)
    nav: list[dict[str, Any]] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write all files to a folder, which is emptied first."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in self.pages.items():
            _write(folder / path, text)
        for path, content in self.copied.items():
            if isinstance(content, str):
                _write(folder / path, content)
            else:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(content, folder / path)


def assemble(generated: Mapping[str, str], drawings: Path) -> SourceTree:
    """Return the source of the site.

    Args:
        generated: Text of the generated pages by path on the site.
        drawings: Folder to write the pictures of *D* to.
    """
    tree = SourceTree(pages={place: python_markdown(text) for place, text in generated.items()})
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / page for page in MOVED)]:
        _add_page(tree, path.relative_to(ROOT).as_posix())
    for path in (ROOT / "docs" / "schemas").glob("*.json"):
        tree.copied[f"schemas/{path.name}"] = path
    _add_drawings(tree, drawings)
    sections = navigation(tree)
    tree.nav = nav_entries(sections, tree)
    tree.copied["llms.txt"] = llms(sections)
    return tree


# ---------------------------------------------------------------------- pages


def place_of(path: str) -> str:
    """Return the path on the site of a file of the repository.

    >>> place_of("docs/README.md"), place_of("docs/teams.md"), place_of("marft_agents/trajectory.py")
    ('index.md', 'teams.md', 'source/marft_agents/trajectory.py.md')
    """
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/"):
        return re.sub(r"(^|/)README\.md$", r"\1index.md", path.removeprefix("docs/"))
    return f"source/{path}.md"


def _add_page(tree: SourceTree, path: str) -> None:
    """Add a page of the repository, and each file that it links to and that is not a page itself."""
    here = place_of(path)

    def place(linked: str) -> str:
        there = place_of(linked)
        if not (ROOT / linked).is_file():
            raise FileNotFoundError(f"{path} links to {linked}, which is not a file of the repository")
        if there not in tree.pages:
            if not there.endswith(".md"):
                tree.copied[there] = ROOT / linked
            elif there.startswith("source/"):
                tree.pages[there] = _source_page(linked)
        return posixpath.relpath(there, posixpath.dirname(here))

    text = (ROOT / path).read_text(encoding="utf-8")
    tree.pages[here] = python_markdown(relinked(text, path, place))
    if "```mermaid" in text:  # a page that finds no such script draws with the one that the theme loads
        depth = here.removesuffix("index.md").removesuffix(".md").count("/") + (not here.endswith("index.md"))
        tree.pages[here] += f'\n<script src="{"../" * depth}{MERMAID}"></script>\n'


def _source_page(path: str) -> str:
    """Return a page that shows a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".ipynb"):
        return _notebook(path, json.loads(text))
    language = LANGUAGES.get(Path(path).suffix, "text")
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"# {Path(path).name}\n\n`{path}`\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _notebook(path: str, notebook: Mapping[str, list[dict[str, list[str] | str]]]) -> str:
    """Return a notebook as a page, without outputs."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join([*parts, f"The notebook is `{path}`."]) + "\n"


def _add_drawings(tree: SourceTree, folder: Path) -> None:
    """Add a picture of *D* for each team to the pages of the environments; equal teams are drawn once."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[tuple[str, Roster], Path] = {}
    for place in [place for place in tree.pages if re.fullmatch(r"environments/(?!index)\w+\.md", place)]:
        task = Path(place).stem
        shown = []
        for team in teams_of(task):
            game = dependency_game(marft_envs.make(f"marft/{task}_{team}"))
            assert game is not None
            name = f"{task}_{team}.svg"
            roster = game.team.roster
            key = (json.dumps(game.dependency.to_dict(), sort_keys=True), roster)
            if key not in drawn:
                drawn[key] = drawing.picture(game.dependency, roster, folder / name)
            tree.copied[f"environments/{name}"] = drawn[key]
            agents = ", ".join(game.possible_agents)
            shown.append(f"### {team}\n\n![Dependency function of {team}: {agents}]({name})")
        text = "## Pictures of *D*\n\nThe first round of each team.\n\n" + "\n\n".join(shown) + "\n\n## Arguments"
        tree.pages[place] = tree.pages[place].replace("## Arguments", text, 1)


# ----------------------------------------------------------------- navigation


def navigation(tree: SourceTree) -> dict[str, dict[str, str]]:
    """Return the pages of each section by title: those of the tables of docs/README.md, then the generated ones.

    A page that no table names stands in the section "More".
    """
    sections: dict[str, dict[str, str]] = {}
    for part in re.split(r"^## ", _index(), flags=re.MULTILINE)[1:]:
        title = part.partition("\n")[0].partition(":")[0].strip()
        rows = re.findall(r"^\| \[([^\]]+)\]\(([^)#\s]+)\)", part, re.MULTILINE)
        if rows:
            sections[title] = {
                name: place_of(posixpath.normpath(posixpath.join("docs", target))) for name, target in rows
            }
    for title, generated in GENERATED.items():
        sections.setdefault(title, {}).update(generated)
    named = {place for pages in sections.values() for place in pages.values()}
    folders = tuple(place.removesuffix("index.md") for place in named if place.endswith("/index.md"))
    shown = (*folders, "source/", "project/")
    left = [place for place in tree.pages if place not in named and not place.startswith(shown)]
    more = {_title(tree.pages[place]): place for place in sorted(left) if place != "index.md"}
    return sections | ({"More": more} if more else {})


def _title(page: str) -> str:
    found = re.search(r"^# (.+)$", page, re.MULTILINE)
    return found[1] if found else "Page"


def nav_entries(sections: Mapping[str, Mapping[str, str]], tree: SourceTree) -> list[dict[str, Any]]:
    """Return the key `nav` of mkdocs.yml; a page `index.md` stands for its whole folder."""
    entries: list[dict[str, Any]] = [{"Start": "index.md"}]
    for title, pages in sections.items():
        below: list[dict[str, Any]] = []
        for name, place in pages.items():
            folder = place.removesuffix("index.md")
            if place == folder:
                below.append({name: place})
            else:
                inside = sorted(page for page in tree.pages if page.startswith(folder) and page != place)
                below.append({name: [place, *({_title(tree.pages[page]): page} for page in inside)]})
        entries.append({title: below})
    return entries


def llms(sections: Mapping[str, Mapping[str, str]]) -> str:
    """Return `llms.txt`: the pages of the site by section, with what each holds, for coding agents."""
    told = dict(re.findall(r"^\| \[([^\]]+)\]\([^)]+\) \| (.+) \|$", _index(), re.MULTILINE))
    parts = [
        "# MARFT",
        "> Multi-agent reinforcement fine-tuning: PettingZoo environments for teams of language models, and a PPO "
        "learner with a LoRA adapter per agent.",
        "To add an environment, follow [the page for coding agents](agents/).",
    ]
    for title, pages in sections.items():
        lines = []
        for name, place in pages.items():
            about = f": {told[name]}" if name in told else ""
            lines.append(f"- [{name}]({re.sub(r'(index)?[.]md$', '', place).rstrip('/')}/){about}")
        parts.append(f"## {title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _index() -> str:
    return (ROOT / "docs" / "README.md").read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
