"""The field's English: docstrings and pages keep to the rules of style that a program can check."""

import ast
import re

import pytest

from tests.house.house_pages import DOCS, ROOT

PACKAGES = ("marft_envs", "marft_agents", "baselines", "benchmarks", "docs_generator", "envs_data", "marft_common")
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if not {"attacks", "template"} & set(path.parts)
)
GUIDES = (
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/glossary.md",
    "docs/architecture.md",
    ".github/PULL_REQUEST_TEMPLATE.md",
    ".github/ISSUE_TEMPLATE/bug.yml",
    ".github/ISSUE_TEMPLATE/algorithm.yml",
)
MOST_WORDS, MOST_WORDS_OF_GUIDES = 30, 25
PRIVATE = re.compile(r"\b(?:wearing|deed|guilty|stranger|mend|whoever)\b")  # words that the glossary has replaced
OPENER = re.compile(r"(what|who|whose|whom|whoever|whatever)\b", re.IGNORECASE)
CAN_NOT = re.compile(r"\bcan not\b")
SECTION = re.compile(r" *(Args|Attributes|Returns|Yields|Raises|Example|Examples):$")
ARGUMENT = re.compile(r"( +)\*{0,2}[A-Za-z_][\w, *]*: (.+)$")


def is_tool(node):
    """Return True for what models read: a change of its docstring changes learning results."""
    return any(isinstance(one, ast.Name) and one.id == "tool" for one in getattr(node, "decorator_list", ()))


def documented(tree):
    """Yield (line, docstring) of a module and of its classes and functions."""
    for node in ast.walk(tree):
        may_have_one = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if may_have_one and not is_tool(node) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def arguments(docstring):
    """Yield the first line of each entry of Args and Attributes."""
    lines = docstring.splitlines()
    within, depth = False, 0
    for line in lines:
        if section := SECTION.match(line):
            within, depth = section[1] in ("Args", "Attributes"), 0
        elif within and line.strip():
            entry = ARGUMENT.match(line)
            depth = depth or (len(entry[1]) if entry else 0)
            if entry and len(entry[1]) == depth:
                yield entry[2]


def sentences(page):
    """Yield the sentences of a page: paragraphs and list items, without code and headings; of guides also tables."""
    text = re.sub(r"^ *```.*?^ *```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!-- generated.*?<!-- /generated -->|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^#.*$" if page in GUIDES else r"^(#|\|).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    end = r"(?<=[.!?])\s+" if page in GUIDES else r"(?<=[.!?:;])\s+"
    for paragraph in re.split(r"\n\s*\n|\n(?= *(?:[-*|]|\d+\.) )", text):
        for cell in re.split(r" \| |\|\n", paragraph) if page in GUIDES else [paragraph]:
            yield from re.split(end, " ".join(cell.split()))


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_messages_speak_the_fields_english(package):
    faults = []
    for module in [one for one in MODULES if one.startswith(f"{package}/")]:
        tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
        for line, text in documented(tree):
            if OPENER.match(text):
                faults.append(f"{module}:{line} opens with a question word: {text.splitlines()[0]}")
            for entry in arguments(text):
                if entry[0].islower():
                    faults.append(f"{module}:{line}: argument doc not capitalised: {entry}")
                if entry.endswith(".") and len(entry.split()) < 3:
                    faults.append(f"{module}:{line}: argument doc under three words: {entry}")
        if module.startswith("envs_data/build/"):  # texts of tasks
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CAN_NOT.search(node.value):
                faults.append(f"{module}:{node.lineno} writes 'can not': {node.value}")
    assert faults == []


@pytest.mark.parametrize("page", dict.fromkeys([*DOCS, "README.md", *GUIDES]))
def test_pages_have_short_sentences_in_the_fields_english(page):
    found = list(sentences(page))
    assert len(found) > 5
    most = MOST_WORDS_OF_GUIDES if page in GUIDES else MOST_WORDS
    words = str.split if page in GUIDES else re.compile(r"[\w'’-]+").findall
    assert [one for one in found if len(words(one)) > most] == []
    assert [one for one in found if CAN_NOT.search(one)] == []
    assert [one for one in found if page in GUIDES and PRIVATE.search(one.lower())] == []
