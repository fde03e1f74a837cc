"""Versions of the documentation site beside each other: one folder each, a list for the selector, and a start page.

The theme reads `versions.json`, in the format of mike, from the folder above each version.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

VERSION = re.compile(r"\d+(?:\.\d+)*|dev")
LIST = "versions.json"
START = """<!doctype html>
<meta charset="utf-8">
<title>MARFT documentation</title>
<meta http-equiv="refresh" content="0; url={newest}/">
<p>Versions:</p>
<ul>
{items}
</ul>
"""


def read_version(text: str) -> str:
    """Return a version of the site.

    Raises:
        ValueError: It is neither numbers with dots nor `dev`.
    """
    if not VERSION.fullmatch(text):
        raise ValueError(f"version {text!r}: wanted numbers with dots, like 0.2, or dev")
    return text


def write_list(site: Path) -> list[str]:
    """Write the list of versions and the start page, which leads to the newest release; return the versions.

    Args:
        site: Folder with one folder per version; other folders are ignored.
    """
    folders = [path.name for path in site.iterdir() if (path / "index.html").is_file()]
    versions = sorted(filter(VERSION.fullmatch, folders), key=_age, reverse=True)
    releases = [version for version in versions if version != "dev"]
    newest = (releases or versions)[0]
    entries = [
        {"version": version, "title": version, "aliases": ["latest"] if version == newest else []}
        for version in versions
    ]
    (site / LIST).write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    items = "\n".join(f'<li><a href="{version}/">{version}</a></li>' for version in versions)
    (site / "index.html").write_text(START.format(newest=newest, items=items), encoding="utf-8")
    return versions


def _age(version: str) -> tuple[float, ...]:
    """Return a key by which newer versions are larger; `dev` is the newest."""
    return (float("inf"),) if version == "dev" else tuple(map(float, version.split(".")))
