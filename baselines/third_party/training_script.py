"""Result record of a third-party training script, and the shared command line of the scripts."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import GAMES, Game, find_game


@dataclass(frozen=True)
class TrainingResult:
    """Result of one training run.

    Attributes:
        library: Distribution name of the library.
        version: Installed version of the library.
        algorithm: Name of the algorithm in its script.
        wrapper: Wrappers between the game and the library, outermost last.
        game: Name of a game in `GAMES`.
        success: Share of the last 200 training games that were won, exploration included, 0 to 1.
        chance: Success rate of random actions, 0 to 1.
        credit: Gap of first returns between won and lost games, see `Credit.gap`.
        steps: Environment steps, as the library counts them.
        cpu_s: CPU time of the training in seconds, less affected by other load than wall time.
        seed: Seed of the run.
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
    """Training function of one algorithm.

    Attributes:
        wrapper: Wrappers that the algorithm needs, for the table.
        train: Maps (game, steps, seed) to the recorded returns of the first speaker.
        steps: Environment steps that are enough for both games, as the library counts them.
    """

    wrapper: str
    train: Callable[[Game, int, int], Credit]
    steps: int = 12_288


def main(library: str, algorithms: Mapping[str, Algorithm], arguments: Sequence[str] | None = None) -> int:
    """Run a training script: train, print the outcome, and write it if `--json` is given.

    Args:
        library: Distribution name of the library.
        algorithms: Algorithms by name; the first is the default.
        arguments: Command-line arguments; None takes those of the process.
    """
    options = _parser(library, algorithms).parse_args(arguments)
    game, algorithm, start = find_game(options.game), algorithms[options.algorithm], time.process_time()
    steps = algorithm.steps if options.steps is None else options.steps
    credit = algorithm.train(game, steps, options.seed)
    outcome = TrainingResult(
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


def read(file: Path) -> TrainingResult:
    """Read an outcome from a file written by `--json`."""
    fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return TrainingResult(**fields)


def _parser(library: str, algorithms: Mapping[str, Algorithm]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Train with {library} in a game of ours.")
    parser.add_argument("--algorithm", choices=list(algorithms), default=next(iter(algorithms)))
    parser.add_argument("--game", choices=list(GAMES), default="cheap_talk-v1")
    parser.add_argument("--steps", type=int, help="of the environment; default: what is enough")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome there")
    return parser
