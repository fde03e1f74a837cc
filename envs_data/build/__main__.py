"""`python -m envs_data.build`: rebuild the embedded sets and their manifest."""

import argparse
from pathlib import Path

from envs_data.build import NAMES, spec
from envs_data.build.writer import write_manifest, write_set


def main(arguments: list[str] | None = None) -> None:
    """Build the named sets, or all sets.

    Args:
        arguments: Command line without the program's name; None reads `sys.argv`.
    """
    parser = argparse.ArgumentParser(prog="python -m envs_data.build", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"sets to build, of {', '.join(NAMES)}")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1], help="folder of the sets")
    options = parser.parse_args(arguments)
    specs = [spec(name) for name in options.names or NAMES]
    entries = {each.name: write_set(each, options.out) for each in specs}
    write_manifest(entries, options.out / "manifest.json")
    for name, entry in entries.items():
        rows = ", ".join(f"{split} {found['rows']}" for split, found in entry["splits"].items())
        print(f"{name}: {rows}")


if __name__ == "__main__":
    main()
