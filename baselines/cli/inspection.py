"""`marft envs`, `marft show` and `marft check`: inspect environments."""

from __future__ import annotations

import argparse
import difflib
import functools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Column, Table

import marft_envs
from baselines.cli.environment_flags import add_environment_flags, read_keywords
from baselines.cli.program_check import check_program
from baselines.cli.program_flags import add_program_flags
from baselines.cli.settings_flags import seed
from baselines.cli.terminal import say, say_loading
from baselines.results.visible_console import console
from marft_envs.dependency import drawing
from marft_envs.environment_capabilities import dependency_game
from marft_envs.registration.plugins import UNLISTED


def add_envs_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft envs`."""
    told = "only ids with a word in id or description that begins so; of several words all"
    parser.add_argument("words", nargs="*", metavar="WORD", help=told)
    others = ", ".join(sorted(UNLISTED))
    parser.add_argument("--all", action="store_true", help=f"also the worlds of {others}")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=list_environments)


def add_show_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft show`."""
    parser.add_argument("env", metavar="ID", help="environment, like marft/math_duo-v0")
    parser.add_argument("--index", type=int, default=0, help="which task to show (default: 0)")
    parser.add_argument("--png", type=Path, metavar="FILE", help="also draw the dependency function")
    add_environment_flags(parser)
    parser.set_defaults(run=show_environment)


def add_check_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft check`."""
    parser.add_argument("env", nargs="?", metavar="ID", help="environment, like marft/math_duo-v0")
    add_program_flags(parser)
    parser.add_argument("--quick", action="store_true", help="leave out what takes seconds")
    parser.add_argument(
        "--needs-team",
        action="store_true",
        help="instead: play it intact, muted, shuffled and with random partners, and say whether it needs a team",
    )
    parser.add_argument(
        "--policy", default="oracle", metavar="POLICY", help="of --needs-team: oracle (default) or a model"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="of --needs-team: play N scenarios, spread over all")
    parser.add_argument(
        "--learns",
        action="store_true",
        help="instead: train a random model of the environment's words with and without messages, print both curves",
    )
    parser.add_argument("--updates", type=int, metavar="N", help="of --learns: of each training (default: 24)")
    parser.add_argument(
        "--seed", type=seed, default=0, help="of --needs-team and --learns: of sampling, shuffle, training (default: 0)"
    )
    add_environment_flags(parser)
    parser.set_defaults(run=check_environment)


def list_environments(arguments: argparse.Namespace) -> int:
    """Run `marft envs`.

    Raises:
        ValueError: No environment has all words.
    """
    everything = [marft_envs.spec(env_id) for env_id in marft_envs.envs()]
    listed = everything if arguments.all else [found for found in everything if found.plugin not in UNLISTED]
    specs = [found for found in listed if _has_words(found, arguments.words)]
    if arguments.words and not specs:
        raise ValueError(_nothing_matches(arguments.words, everything))
    if arguments.json:
        records = []
        for found in specs:
            record = {"id": found.id, "task": found.task, "team": found.team, "description": found.description}
            records.append(record | {"plugin": found.plugin, "deprecated": found.deprecated})
        say(json.dumps(records, indent=1))
        return 0
    rows = []  # the same for a terminal and for a pipe
    for found in specs:
        outdated = f" (out of date: {found.deprecated})" if found.deprecated else ""
        rows.append((found.id, found.task, found.team, found.description + outdated))
    if not sys.stdout.isatty():  # a line each, for grep and cut
        for row in rows:
            say(*row, sep="\t")
        return 0
    table = Table(Column("id", no_wrap=True), "task", "team", "description")
    for row in rows:
        table.add_row(*row)
    console().print(table)
    if left := sum(_has_words(found, arguments.words) for found in everything) - len(specs):
        say(f"{left} more of other packages: marft envs {' '.join(['--all', *arguments.words])}")
    return 0


def _has_words(found: marft_envs.EnvSpec, words: Sequence[str]) -> bool:
    """Tell whether each word begins a word of the id, the description or the plugin's name."""
    text = f"{found.id} {found.description} {found.plugin}"
    return all(re.search(rf"(?<![a-z0-9]){re.escape(word)}", text, re.IGNORECASE) for word in words)


def _nothing_matches(words: Sequence[str], everything: Sequence[marft_envs.EnvSpec]) -> str:
    """Return the message for words that no listed environment has; it names others that have them, or close ids."""
    # No listed environment has the words, so those that have them are unlisted.
    if others := sum(_has_words(found, words) for found in everything):
        named = f"{others} of other packages do: `marft envs --all {' '.join(words)}`"
    else:
        by_name = {}  # "math_duo" of "marft/math_duo-v0"
        for found in everything:
            by_name[found.id.partition("/")[2].rpartition("-v")[0]] = found.id
        close = difflib.get_close_matches("_".join(words).lower(), by_name, n=4, cutoff=0.4)
        ids = ", ".join(by_name[name] for name in close)
        named = f"did you mean {ids}?" if ids else f"there are {len(everything)}: `marft envs --all`"
    return f"no environment matches {' '.join(words)!r}; {named}"


def show_environment(arguments: argparse.Namespace) -> int:
    """Run `marft show`: play one episode with placeholder actions and print each agent's first observation."""
    env = marft_envs.make(arguments.env, **read_keywords(arguments))
    env.reset(seed=0, options={"index": arguments.index})
    game = dependency_game(env)
    say(f"{arguments.env}\n")
    if game is not None:
        _show_game(game, arguments.png)
    elif arguments.png is not None:
        raise ValueError(f"{arguments.env} is no Flex-MG: it has no dependency function to draw")
    shown: set[str] = set()
    for agent in env.agent_iter():
        observation, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            env.step(None)
            continue
        if agent not in shown:
            say(f"--- what {agent} sees {'-' * max(0, 60 - len(agent))}\n{observation}\n")
            shown.add(agent)
        env.step(f"(action of {agent})")
    return 0


def _show_game(game: marft_envs.FlexMG, png: Path | None) -> None:
    """Print the settings of a game and its dependency function; draw that to a file if there is one."""
    for key, value in game.settings.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        say(f"{key:18}{text}")
    say(f"{'number of tasks':18}{len(game.tasks)}")
    roster = game.team.roster
    say(f"\ndependency function of the first round (Mermaid):\n{drawing.mermaid(game.dependency, roster)}\n")
    if png is not None:
        png.parent.mkdir(parents=True, exist_ok=True)
        say(f"drawn to {drawing.picture(game.dependency, roster, png, rounds=game.horizon)}\n")


def check_environment(arguments: argparse.Namespace) -> int:
    """Run `marft check`; return exit code 0 if all checks passed, else 1; with --needs-team or --learns 0."""
    from marft_envs.testing import check_environment as run_kit

    if arguments.program is not None:
        return check_program(arguments)
    if arguments.env is None:
        raise ValueError("marft check needs an ID, or --program PROGRAM --agents NAME,NAME --data FILE")
    marft_envs.spec(arguments.env)  # report an unknown id as an input error, not as a failed check
    if arguments.learns:
        say("loading torch; then two short trainings ...")
        from baselines.bench.learns import UPDATES, learns

        updates = UPDATES if arguments.updates is None else arguments.updates
        say(learns(arguments.env, read_keywords(arguments), updates=updates, seed=arguments.seed))
        return 0
    if arguments.needs_team:
        from baselines.bench.needs_team import ORACLE, needs_team

        keywords = read_keywords(arguments)
        if arguments.policy != ORACLE:
            say_loading([arguments.policy])
        say(needs_team(arguments.env, keywords, arguments.policy, limit=arguments.limit, seed=arguments.seed))
        return 0
    # A function, since the checks make the environment many times, also in other processes.
    make = functools.partial(marft_envs.make, arguments.env, **read_keywords(arguments))
    report = run_kit(make, thorough=not arguments.quick)
    say(report)
    return 0 if report.passed else 1
