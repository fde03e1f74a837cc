"""Build the documentation site: `python -m docs_generator`, or `make docs`.

The source is assembled in build/documentation/source, the site lies in build/documentation/site. With `--version` it
lies in a folder of its own there, and pages have a selector of versions. The build is strict: a link or an anchor that
leads nowhere fails it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from docs_generator import reference_pages
from docs_generator.source_tree import MERMAID, ROOT, assemble
from docs_generator.versions import read_version, write_list

BUILD = ROOT / "build" / "documentation"
PACKAGE = "mermaid@12"  # the version that the theme would load from the network


def main(arguments: Sequence[str] | None = None) -> int:
    """Assemble the source and build the site; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs_generator", description="Build the site.")
    parser.add_argument("--source-only", action="store_true", help="assemble the source and do not build")
    parser.add_argument("--version", type=read_version, help="build into a folder of this version, like 0.2 or dev")
    parsed = parser.parse_args(arguments)
    tree = assemble(reference_pages.pages(), BUILD / "drawings")
    tree.copied["assets/site.css"] = Path(__file__).with_name("site.css")
    if script := _mermaid(BUILD / "mermaid"):
        tree.copied[MERMAID] = script
    tree.write(BUILD / "source")
    site = f"site/{parsed.version}" if parsed.version else "site"
    config: dict[str, Any] = {"INHERIT": "../../mkdocs.yml", "docs_dir": "source", "site_dir": site, "nav": tree.nav}
    if parsed.version:
        config["extra"] = {"version": {"provider": "mike", "default": "latest"}}
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(config, allow_unicode=True, sort_keys=False), encoding="utf-8")
    if parsed.source_only:
        return 0
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--clean",
        "--config-file",
        str(BUILD / "mkdocs.yml"),
    ]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if parsed.version and not status:
        write_list(BUILD / "site")
    return status


def _mermaid(folder: Path) -> Path | None:
    """Return the script that draws diagrams, fetched through npm once; None without npm: browsers then fetch it."""
    script = folder / "mermaid.min.js"
    npm = shutil.which("npm")
    if not script.is_file() and npm:
        folder.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, check=False, capture_output=True)
        if packed.returncode:
            return None
        (archive,) = folder.glob("mermaid-*.tgz")
        with tarfile.open(archive) as package, (folder / "part").open("wb") as part:
            content = package.extractfile("package/dist/mermaid.min.js")
            assert content is not None
            shutil.copyfileobj(content, part)
        archive.unlink()
        (folder / "part").rename(script)
    return script if script.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
