"""`marft export`: the episodes of a run or an evaluation as JSON Lines, Parquet or OpenTelemetry spans."""

from __future__ import annotations

import argparse
from pathlib import Path

from baselines.cli.terminal import say
from baselines.cli.trust_flag import add_trust_flag
from baselines.experiment.episode_source import EpisodeSource
from marft_envs.records.files import write_episodes
from marft_envs.records.opentelemetry import write_spans

FORMATS = ("jsonl", "parquet", "spans")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft export`."""
    parser.add_argument("place", type=Path, metavar="RUN|EVALUATION", help="folder of a run or of an evaluation")
    parser.add_argument(
        "--format", choices=FORMATS, required=True, help="JSON Lines, Parquet, or OpenTelemetry spans (OTLP JSON lines)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="file to write")
    parser.add_argument(
        "--texts", action="store_true", help="spans with observations, actions and arguments; the others have them"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    add_trust_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft export`."""
    out: Path = arguments.out
    if out.exists() and not arguments.overwrite:
        raise ValueError(f"{out} exists already: give another --out, or --overwrite")
    out.parent.mkdir(parents=True, exist_ok=True)
    # texts of spans are chat messages, which the whole records of an evaluation do not hold
    rebuilt = arguments.format == "spans" and arguments.texts
    source = EpisodeSource(arguments.place, rebuilt=rebuilt, trust=arguments.trust_config)
    if arguments.format == "spans":
        count = write_spans(out, source.episodes(), texts=arguments.texts)
    else:
        count = write_episodes(out, source.episodes(), arguments.format)
    say(f"{out}: {count} episodes" + (f"; {source.failed} failed ones have no record" if source.failed else ""))
    return 0
