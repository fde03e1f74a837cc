"""`marft push`: publish a trained team on the Hugging Face Hub, or write the folder that would be published."""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from baselines.cli.environment_flags import TRAINED
from baselines.cli.terminal import say
from baselines.cli.trust_flag import add_trust_flag
from baselines.publishing.team_folder import PublishedTeam, PublishError

REPO = re.compile(r"[\w.-]+/[\w.-]+")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft push`."""
    parser.add_argument(
        "run_folder",
        metavar="RUN",
        help=TRAINED,
    )
    parser.add_argument("--repo", metavar="OWNER/NAME", required=True, help="repository on the hub; made if missing")
    parser.add_argument("--dry-run", action="store_true", help="write the folder to --out, and upload nothing")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the folder here (default: a temporary one)")
    parser.add_argument(
        "--evaluation",
        action="append",
        metavar="DIR",
        help="evaluation for the table of results; may be repeated, the first is evaluation.json (default: the newest "
        "one of the checkpoint within RUN)",
    )
    parser.add_argument(
        "--replace",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="put another text in place of one in all records, such as a hub id for a path; may be repeated",
    )
    parser.add_argument("--episodes", action="store_true", help="publish the episodes of the first evaluation too")
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    add_trust_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft push`."""
    if not REPO.fullmatch(arguments.repo):
        raise PublishError(f"--repo {arguments.repo!r}: wanted OWNER/NAME")
    if arguments.dry_run and arguments.out is None:
        raise PublishError("--dry-run writes a folder: give --out FOLDER")
    replacements = {}
    for text in arguments.replace:
        old, sign, new = text.rpartition("=")  # the old text may hold an equals sign, a hub id does not
        if not (sign and old):
            raise PublishError(f"--replace {text!r}: wanted OLD=NEW")
        replacements[old] = new
    evaluations, trust = tuple(arguments.evaluation or ()), bool(arguments.trust_config)
    team = PublishedTeam(arguments.run_folder, arguments.repo, evaluations, replacements, arguments.episodes, trust)
    if arguments.dry_run:
        team.write(arguments.out)
        say(f"{arguments.out}: {_size(arguments.out)}; nothing was uploaded")
        return 0
    from huggingface_hub import get_token

    if get_token() is None:  # before the work of writing the folder
        raise PublishError("not logged in to the hub: run `hf auth login`, or set HF_TOKEN; --dry-run needs neither")
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.out or Path(scratch) / "team"
        team.write(folder)
        url = _upload(folder, arguments.repo, private=arguments.private)
        say(f"{url}: {_size(folder)}")
    return 0


def _upload(folder: Path, repo: str, *, private: bool) -> str:
    """Upload a folder as one commit; return the address of the repository."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(library_name="marft")
    try:
        made = api.create_repo(repo, private=private or None, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Team trained with MARFT")
    except (HfHubHTTPError, OSError) as error:
        raise PublishError(f"{repo} could not be uploaded: {str(error).strip().splitlines()[0]}") from error
    return str(made)


def _size(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"
