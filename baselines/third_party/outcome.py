"""What a script reports, and the command line that all scripts share."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from baselines.third_party.credit import Credit
from baselines.third_party.games import GAMES, Game, find_game


@dataclass(frozen=True)
class Outcome:
    """One run of one algorithm.

    Attributes:
        library: Distribution that was run.
        version: Of it.
        algorithm: As the library calls it.
        wrapper: The views between the game and the library, outermost last.
        game: One of `GAMES`.
        success: Share of the last 200 training games that were won, exploration included.
        chance: Success of a team that guesses.
        credit: `Credit.gap`.
        steps: Steps of the environment, as the library counts them.
        cpu_s: Processor time of the training, seconds; unlike the clock it leaves out what else the machine does.
        seed: Of the run.
    """

    library: str
    version: str
    algorithm: str
    wrapper: str
    game: str
    success: float
    chance: float
    credit: float
    steps: int
    cpu_s: float
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.library} {self.version} {self.algorithm} on {self.game}: success {self.success:.2f} "
            f"(chance {self.chance:.2f}), credit of the first speaker {self.credit:.2f}, "
            f"{self.steps} steps in {self.cpu_s:.0f} s of CPU"
        )


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of a library.

    Attributes:
        wrapper: The views it needs, for the table.
        train: (game, steps, seed) -> what was seen of the first speaker's returns.
        steps: Steps that are enough for both games, as the library counts them.
    """

    wrapper: str
    train: Callable[[Game, int, int], Credit]
    steps: int = 12_288


def main(library: str, algorithms: Mapping[str, Algorithm], arguments: Sequence[str] | None = None) -> int:
    """Run a script: train, print the outcome, write it.

    Args:
        library: Its distribution.
        algorithms: By name; the first is the default.
        arguments: Of the command line; None is that of the process.
    """
    options = _parser(library, algorithms).parse_args(arguments)
    game, algorithm, start = find_game(options.game), algorithms[options.algorithm], time.process_time()
    steps = algorithm.steps if options.steps is None else options.steps
    credit = algorithm.train(game, steps, options.seed)
    outcome = Outcome(
        library=library,
        version=version(library),
        algorithm=options.algorithm,
        wrapper=algorithm.wrapper,
        game=game.name,
        success=game.scores.last(),
        chance=game.chance,
        credit=credit.gap(),
        steps=steps,
        cpu_s=time.process_time() - start,
        seed=options.seed,
    )
    print(outcome)
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(outcome)) + "\n", encoding="utf-8")
    return 0


def read(file: Path) -> Outcome:
    """Read what `--json` wrote."""
    fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return Outcome(**fields)


def _parser(library: str, algorithms: Mapping[str, Algorithm]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Train with {library} in a game of ours.")
    parser.add_argument("--algorithm", choices=list(algorithms), default=next(iter(algorithms)))
    parser.add_argument("--game", choices=list(GAMES), default="cheap_talk")
    parser.add_argument("--steps", type=int, help="of the environment; default: what is enough")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome there")
    return parser
