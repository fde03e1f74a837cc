"""Write the folder of a published team; `--checkpoint FOLDER` and PEFT both load it.

The folder holds the adapters, `state.json` and `config.json` (with which MARFT loads the team), `team.json`,
`evaluation.json`, a picture of *D* and the model card. It holds no optimizer, no critic and no metrics, and episodes
only if asked for.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import marft_envs
from baselines.experiment.config_trust import Uses, read_config
from baselines.experiment.run_surface import read_surface
from baselines.experiment.trained_team import run_of
from baselines.publishing.model_card import PICTURE, CardFacts, model_card
from baselines.publishing.private_content import PrivateContent, replaced, search
from baselines.results.comparison import find_evaluation, read_evaluation
from marft_agents.models.random_models import random_model
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import EVALUATION_FILE
from marft_envs.dependency import drawing
from marft_envs.registration.recorded_game import surface_of
from marft_envs.teams.team import Team

SCENARIOS = "scenarios.json"
CARD = "README.md"
EPISODES = "episodes.jsonl"
STATE_KEYS = ("updates", "team", "settings", "context", "notes", "best")  # of state.json, without the guard


class PublishError(ValueError):
    """A team that cannot be published; the message says what was found and what to do."""


@dataclass(frozen=True)
class PublishedTeam:
    """A run to publish.

    Attributes:
        run: Run, RUN@best, RUN@update-00012 or a checkpoint.
        repo: OWNER/NAME of the repository.
        evaluations: Evaluations for the table; empty: the newest one of the checkpoint within the run's folder.
        replacements: Text to put in place of another one in every record, such as a hub id for a path.
        episodes: True to add the episodes of the first evaluation.
        trust: True to act on the records of somebody else.
    """

    run: str
    repo: str
    evaluations: Sequence[str] = ()
    replacements: Mapping[str, str] = dataclasses.field(default_factory=dict)
    episodes: bool = False
    trust: bool = False

    def write(self, out: Path) -> None:
        """Write the folder.

        Args:
            out: Folder to fill; it must be empty or missing. After an error it is removed.

        Raises:
            PublishError: The folder is not empty, or what would be published holds private content.
            CheckpointError, ComparisonError: The run has no checkpoint or no evaluation.
        """
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise PublishError(f"{out} is not empty: give another --out")
        source = checkpoint.resolve(Path(self.run))
        evaluations = self._evaluations()
        out.mkdir(parents=True, exist_ok=True)
        try:
            self._write(out, source, evaluations)
            if found := self._private_content(out):
                raise PublishError(_refusal(found))
        except BaseException:
            shutil.rmtree(out)
            raise

    def _evaluations(self) -> dict[str, Path]:
        """Return the evaluation.json of each row by its label: the name of its folder."""
        found: dict[str, Path] = {}
        for text in self.evaluations or (self.run,):
            file = find_evaluation(text)
            label = file.resolve().parent.name
            if label in found:
                raise PublishError(f"two evaluations are called {label!r}: rename the folder of one")
            found[label] = file
        return found

    def _write(self, out: Path, source: Path, files: Mapping[str, Path]) -> None:
        run = run_of(source)
        folders = checkpoint.adapter_folders(source)
        told = checkpoint.read_state(source)
        state = replaced({key: told[key] for key in STATE_KEYS if key in told}, self._replace) | {"folders": folders}
        config = self._json(run / "config.json")
        bases = self._adapters(out, source, folders)
        evaluations = {label: self._evaluation(file) for label, file in files.items()}
        first, file = next(iter(evaluations.values())), next(iter(files.values()))
        published = checkpoint.name_of(state["updates"])
        if first["checkpoint"] != published:
            raise PublishError(
                f"--evaluation: the first is of {first['checkpoint'] or 'the untrained team'} ({file}), wanted one of "
                f"the published checkpoint {published}"
            )
        scenarios = self._scenarios(out, file, first)
        for label, record in evaluations.items():
            _put_json(out / (EVALUATION_FILE if record is first else f"evaluation-{label}.json"), record)
        checkpoint.write_state(out, state | {"sha256": checkpoint.hashes_of(out)})
        _put_json(out / "config.json", config)
        facts = CardFacts(
            repo=self.repo,
            config=config,
            checkpoint=published,
            team=self._team(out, run, config),
            folders=folders,
            bases=bases,
            evaluations=evaluations,
            scenarios=scenarios,
            versions=self._json(run / "versions.json") if (run / "versions.json").is_file() else first["versions"],
        )
        (out / CARD).write_text(model_card(facts), encoding="utf-8")
        if self.episodes:
            self._episodes(out, file.parent / EPISODES)

    def _adapters(self, out: Path, source: Path, folders: Mapping[str, str]) -> dict[str, str | None]:
        """Copy the adapters; return the base model of each agent, None for models without weights elsewhere."""
        bases: dict[str, str | None] = {}
        for agent, folder in folders.items():
            (out / folder).mkdir()
            shutil.copyfile(source / folder / checkpoint.WEIGHTS_FILE, out / folder / checkpoint.WEIGHTS_FILE)
            config = self._json(source / folder / "adapter_config.json")
            _put_json(out / folder / "adapter_config.json", config)
            base = config["base_model_name_or_path"]
            bases[agent] = None if random_model(base) else base
        return bases

    def _evaluation(self, file: Path) -> dict[str, Any]:
        read_evaluation(file)  # refuses what is none
        record = self._json(file)
        path = record["checkpoint"]
        return record | {"checkpoint": path and Path(path).name, "scenario_file": None}

    def _scenarios(self, out: Path, file: Path, record: dict[str, Any]) -> str | None:
        """Copy the scenario list of an evaluation if it is still there; return its name."""
        named = read_config(file, Uses(only=("scenario_file",)), trust=self.trust)["scenario_file"]
        listed = None if named is None else file.parent / named
        if listed is None or not listed.is_file():
            return None
        _refuse_link(listed)
        shutil.copyfile(listed, out / SCENARIOS)
        record["scenario_file"] = SCENARIOS
        return SCENARIOS

    def _episodes(self, out: Path, file: Path) -> None:
        if not file.is_file():
            raise PublishError(f"--episodes: {file} is missing")
        _refuse_link(file)
        with file.open(encoding="utf-8") as lines, (out / EPISODES).open("w", encoding="utf-8") as stream:
            for line in lines:
                stream.write(json.dumps(replaced(json.loads(line), self._replace), ensure_ascii=False) + "\n")

    def _replace(self, text: str) -> str:
        for old, new in self.replacements.items():
            text = text.replace(old, new)
        return text

    def _json(self, file: Path) -> dict[str, Any]:
        _refuse_link(file)
        try:
            record: dict[str, Any] = replaced(json.loads(file.read_text(encoding="utf-8")), self._replace)
        except (OSError, ValueError) as error:
            raise PublishError(f"{file} cannot be read: {error}") from error
        return record

    def _team(self, out: Path, run: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Write team.json and the picture of *D*; return the team, None for an environment that shows none."""
        surface = read_surface(run)
        if surface is not None:
            told: dict[str, Any] = replaced(surface, self._replace)
        else:  # an older run
            read_config(run / "config.json", Uses(only=("env", "keywords")), trust=self.trust)
            env = marft_envs.make(config["env"], **config["keywords"])
            found = surface_of(env)
            if found is None or found["team"] is None:
                return None
            told = found
        team = Team.from_dict({**told["team"], "dependency": told["dependency"]})
        _put_json(out / "team.json", team.to_dict())
        drawing.picture(team.dependency, team.roster, out / PICTURE)
        return team.to_dict()

    def _private_content(self, out: Path) -> list[PrivateContent]:
        """Return what must not be published in the text files of a folder."""
        found: list[PrivateContent] = []
        for path in sorted(out.rglob("*")):
            name = path.relative_to(out).as_posix()
            if path.suffix == ".json":
                found += search(json.loads(path.read_text(encoding="utf-8")), name)
            elif path.suffix in (".md", ".jsonl"):
                for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
                    record = json.loads(line) if path.suffix == ".jsonl" and line else line
                    found += search(record, f"{name}:{number}")
        return found


def _refuse_link(file: Path) -> None:
    """Refuse a link in a run that somebody else made: it could publish any file of this machine."""
    if file.is_symlink():
        raise PublishError(f"{file} is a link to {file.resolve()}: wanted a file; put a copy in its place")


def _put_json(path: Path, record: Any) -> None:
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _refusal(found: Sequence[PrivateContent]) -> str:
    shown = [str(one) for one in found[:10]]
    more = [f"and {len(found) - len(shown)} more"] if len(found) > len(shown) else []
    advice = "put other texts in their place with --replace OLD=NEW, such as a hub id for the path of a model"
    return "; ".join(["this must not be published", *shown, *more, advice])
