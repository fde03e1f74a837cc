"""The report as one HTML file: style, script and data inside, nothing from the network.

The sources of the page lie in the folder `page`. The script files share one scope and are joined in the order of
`SCRIPTS`. `d3.min.js` is the part of D3 that the charts use, built by `npm ci && npm run build` in .ci/npm. The
Content-Security-Policy allows exactly the style and the script of the file, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from baselines.report.episode_set import EpisodeSet, TextLimit, packed
from baselines.report.overview import overview
from baselines.report.sources import Source, read_source

SCRIPTS = ("d3.min.js", "dom.js", "chart.js", "graph.js", "overview.js", "episodes.js", "main.js")
MOST_EPISODES = 10_000  # of a set
BYTES_PER_EPISODE = 4_500  # of a file; with more, texts are shortened. 1,000 episodes stay below 5 MB
SMALLEST_BUDGET = 1 << 20
TEXT_LIMITS = (None, 65_536, 16_384, 4_096, 1_024)  # characters, tried in this order


def report_content(source: Source, other: Source | None = None) -> dict[str, Any]:
    """Return everything the page shows but the whole episodes; reads what the sets of episodes have grown by."""
    sides = [source] if other is None else [source, other]
    sets = []
    for number, side in enumerate(sides):
        for episodes in side.episodes:
            episodes.refresh()
            sets.append(episodes.to_dict() | {"side": number})
    return overview(source, other) | {"sets": sets}


def build_report(path: Path, other: Path | None = None, *, keep: int = MOST_EPISODES) -> bytes:
    """Return the HTML of a report.

    Args:
        path: A run, an evaluation, a benchmark or an attribution.
        other: What it is compared with; None compares nothing.
        keep: Most episodes of each set, spread evenly over those recorded.

    Raises:
        SourceError: A path holds no records.
        ValueError: A record cannot be read.
    """
    for limit in TEXT_LIMITS:
        sides = [None if one is None else read_source(one, TextLimit(limit), keep) for one in (path, other)]
        assert sides[0] is not None
        content = report_content(sides[0], sides[1])
        sets = [episodes for side in sides if side is not None for episodes in side.episodes]
        size = sum(len(block) for episodes in sets for block in episodes.blocks) * 4 // 3
        if size <= max(SMALLEST_BUDGET, BYTES_PER_EPISODE * sum(len(episodes.rows) for episodes in sets)):
            break
    return page(content["title"], _data(content, sets))


def _data(content: dict[str, Any], sets: Sequence[EpisodeSet]) -> str:
    """Return the data as script elements that no browser runs: base64 of raw deflate, a block of episodes each."""
    parts = {"report": packed(content)}
    for number, episodes in enumerate(sets):
        parts |= {f"block-{number}-{place}": block for place, block in enumerate(episodes.blocks)}
    return "\n".join(
        f'<script type="text/plain" id="{name}">{base64.b64encode(part).decode("ascii")}</script>'
        for name, part in parts.items()
    )


def page(title: str, data: str = "", *, follow: bool = False) -> bytes:
    """Return the HTML of the page.

    Args:
        title: Title of the document.
        data: Elements with the data.
        follow: True if the page asks its server for data.
    """
    template, style, script = assets()
    allowed = html.escape(policy(follow=follow), quote=True)
    filled = template.format(policy=allowed, title=html.escape(title), style=style, script=script, data=data)
    return filled.encode("utf-8", "replace")


@cache
def assets() -> tuple[str, str, str]:
    """Return the template, the style and the script of the page."""
    folder = resources.files("baselines.report").joinpath("page")
    read = {
        name: folder.joinpath(name).read_text(encoding="utf-8") for name in ("template.html", "style.css", *SCRIPTS)
    }
    return read["template.html"], read["style.css"], "\n".join(read[name] for name in SCRIPTS)


@cache
def policy(*, follow: bool = False) -> str:
    """Return the Content-Security-Policy of the page: its own style and script, data from its own server, no more.

    Args:
        follow: True allows the page to ask its server for data.
    """
    _, style, script = assets()
    asked = "connect-src 'self'; " if follow else ""
    own = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return f"default-src 'none'; {own}; {asked}base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
