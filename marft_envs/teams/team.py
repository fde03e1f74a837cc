"""Teams as data: agents with profiles and a dependency between them.

A team is an ordered set of agents, written as one JSON file. The presets
(solo, duo, trio, quartet, sextet, octet, dozen) are such files, in `marft_envs/teams/presets/`: for mathematics in
English and in Chinese; for programming ("code"), for tools and for memory ("recall": solo to quartet) in English.
So is `routed`, whose orchestrator chooses who acts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from marft_common.close_names import did_you_mean
from marft_envs.dependency import Dependency, DependencyError, Roster, as_dependency, chain
from marft_envs.teams.profile import Profile, TeamError, checked, checked_keys, profile_from_dict, profile_to_dict

PRESETS = ("solo", "duo", "trio", "quartet", "sextet", "octet", "dozen", "routed")
LANGUAGES = ("en", "zh")
# for experiments; no environment has them by default: see `team=` of `make`
MORE_PRESETS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "paper_solo": {"math": ("en", "zh"), "code": ("en",)},
    "paper_duo": {"math": ("en", "zh"), "code": ("en",)},
    "authors_solo": {"math": ("en",), "code": ("en",)},
    "authors_duo": {"math": ("en",), "code": ("en",)},
    "authors_trio": {"math": ("en",), "code": ("en",)},
    "authors_quartet": {"math": ("en",), "code": ("en",)},
    "laptop_solo": {"math": ("en",)},
    "laptop_duo": {"math": ("en",)},
    "laptop_trio": {"math": ("en",)},
    "laptop_routed": {"tools": ("en",)},  # for the world `lookup` alone
    "ladder_solo": {"math": ("en", "zh"), "code": ("en",), "tools": ("en",)},  # for `data="embedded:ladder"` alone
    "ladder_duo": {"math": ("en", "zh"), "code": ("en",), "tools": ("en",)},
}
# families of the presets, with their languages
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "math": ("en", "zh"),
    "code": ("en",),
    "tools": ("en",),
    "recall": ("en",),
}
# families without the larger presets
FEW_TEAMS: Mapping[str, tuple[str, ...]] = {"recall": ("solo", "duo", "trio", "quartet")}
_ANY_HORIZON = 1000  # a file does not say for how many rounds; the game checks again with its own


@dataclass(frozen=True)
class Team:
    """An ordered set of agents.

    Attributes:
        name: Short name of the team.
        profiles: The agents in team order.
        dependency: Dependency function of the team, unless a game is made with another. The name of a preset ("chain")
            and the JSON form are accepted, as in a file, and converted.
        language: Language of the few sentences of the game itself: "en" or "zh".
    """

    name: str
    profiles: tuple[Profile, ...]
    dependency: Dependency = field(default_factory=chain)
    language: str = "en"

    def __post_init__(self) -> None:
        names = [profile.name for profile in self.profiles]
        if not names:
            raise TeamError(f"team {self.name!r}: found no agents, wanted at least one profile")
        if twice := [name for name in names if names.count(name) > 1]:
            raise TeamError(
                f"team {self.name!r}: two agents are called {twice[0]!r}; number them, like 'solver_0', 'solver_1'"
            )
        if self.language not in LANGUAGES:
            raise TeamError(f"team {self.name!r}: language {self.language!r} is none of {', '.join(LANGUAGES)}")
        try:
            dependency = as_dependency(self.dependency)
        except DependencyError as error:
            raise TeamError(f"team {self.name!r}: {error}") from error
        object.__setattr__(self, "dependency", dependency)

    @cached_property
    def roster(self) -> Roster:
        """The agents' names, and the agents that answer."""
        answering = frozenset(profile.name for profile in self.profiles if profile.answers)
        return Roster(tuple(profile.name for profile in self.profiles), answering)

    def check(self, horizon: int = 1) -> None:
        """Refuse a team whose dependency cannot be played.

        Raises:
            DependencyError: See `Dependency.check`.
        """
        self.dependency.check(self.roster, horizon)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "language": self.language,
            "dependency": self.dependency.to_dict(),
            "profiles": [profile_to_dict(profile) for profile in self.profiles],
        }

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that the agents are told, 16 hexadecimal digits; for records."""
        try:
            plain = self.to_dict()
        except DependencyError:  # a rule is code
            plain = {"name": self.name, "profiles": [profile_to_dict(profile) for profile in self.profiles]}
        text = json.dumps(plain, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @classmethod
    def from_prompts(
        cls,
        prompts: Mapping[str, str] | Iterable[str],
        *,
        name: str = "team",
        dependency: Dependency | Mapping[str, Any] | str = "chain",
        answers: Iterable[str] | None = None,
        language: str = "en",
    ) -> Team:
        """Make a team of system prompts, one for each agent.

        Args:
            prompts: System prompts by agent name, in team order; or prompts alone, of agents `agent_0`, `agent_1`, ...
            name: Short name of the team.
            dependency: Dependency function, the name of a preset, or its JSON form.
            answers: Names of the agents whose action is the team's answer; None is the last agent.
            language: As in the attributes of the class.

        Raises:
            TeamError: No prompts, a bad name, or a dependency or agents that answer that do not fit.

        Examples:
            >>> Team.from_prompts({"writer_0": "Write one word.", "editor_0": "Correct it."}).roster.answering
            frozenset({'editor_0'})
        """
        if isinstance(prompts, str):
            raise TeamError(f"team {name!r}: found one text, wanted a system prompt for each agent: [{prompts!r}, ...]")
        told = prompts if isinstance(prompts, Mapping) else {f"agent_{i}": text for i, text in enumerate(prompts)}
        answering = list(told)[-1:] if answers is None else list(answers)
        if unknown := [agent for agent in answering if agent not in told]:
            raise TeamError(f"team {name!r}: answers: unknown agent {unknown[0]!r}; the team has {', '.join(told)}")
        profiles = tuple(Profile(agent, text, answers=agent in answering) for agent, text in told.items())
        try:
            team = cls(name, profiles, as_dependency(dependency), language)
            team.check(_ANY_HORIZON)
        except DependencyError as error:
            raise TeamError(f"team {name!r}: {error}") from error
        return team

    @classmethod
    def from_dict(cls, value: Any, where: str = "team") -> Team:
        """Read the JSON form.

        Raises:
            TeamError: A missing or unknown key, a wrong type, two agents of one name, a dependency that does
                not fit.
        """
        plain = checked_keys(value, where, required=("name", "profiles"), optional=("language", "dependency"))
        profiles = checked(plain["profiles"], list, f"{where}: profiles")
        read = tuple(profile_from_dict(entry, f"{where}: profiles[{place}]") for place, entry in enumerate(profiles))
        name = checked(plain["name"], str, f"{where}: name")
        try:
            dependency = as_dependency(plain.get("dependency", "chain"), "dependency")
            team = cls(name, read, dependency, plain.get("language", "en"))
            team.check(_ANY_HORIZON)
        except ValueError as error:
            raise TeamError(f"{where}: {error}") from error
        return team

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Team:
        """Read a team from a JSON file.

        Raises:
            TeamError: There is no such file, it is no JSON, or `from_dict` refuses it; the message names the
                file.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a byte-order mark
        except (OSError, UnicodeDecodeError) as error:
            raise TeamError(f"{path}: the team cannot be read ({error}); give the path of a JSON file") from error
        return cls._parse(text, str(path))

    @classmethod
    def preset(cls, name: str, language: str = "en", family: str = "math") -> Team:
        """Return one of `PRESETS` or `MORE_PRESETS`.

        Args:
            name: Name of the preset.
            language: "en" or "zh".
            family: Family of tasks: one of `FAMILIES`, or the absolute path of a folder with files
                `{name}_{language}.json`, for the presets of a plugin.

        Raises:
            TeamError: No such preset.
        """
        return _preset(name, language, family)

    @classmethod
    def _parse(cls, text: str, where: str) -> Team:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TeamError(f"{where}: this is no JSON: {error}") from error
        return cls.from_dict(value, where)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the team as JSON, to a temporary name first, so that no half-written file is left.

        Raises:
            TeamError: It cannot be written; an older file of that name is still there.
        """
        target = Path(path)
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except (OSError, UnicodeEncodeError) as error:
            raise TeamError(f"{target}: the team cannot be written ({error})") from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def as_team(value: object, language: str = "en", family: str = "math") -> Team:
    """Convert a team, its JSON form, the path of its file, or the name of a preset to a team.

    Args:
        value: Team in one of these forms.
        language: Language of a preset.
        family: Family of a preset.

    Raises:
        TeamError: It is none of these.
    """
    if isinstance(value, Team):
        return value
    if isinstance(value, Mapping):
        return Team.from_dict(value)
    if isinstance(value, str) and value in (*PRESETS, *MORE_PRESETS):
        return Team.preset(value, language, family)
    if isinstance(value, str) and value.isidentifier() and not Path(value).exists():
        presets = ", ".join((*PRESETS, *MORE_PRESETS))
        raise TeamError(f"team: found {value!r}, wanted a Team, the path of a file or one of {presets}")
    if isinstance(value, str | os.PathLike):
        return Team.load(value)
    raise TeamError(
        f"team: expected a Team, a path or a preset ({', '.join(PRESETS)}), got {value!r}; Team.from_prompts makes "
        "one of system prompts"
    )


def check_preset(name: str, language: str, family: str) -> None:
    """Require the name of a preset that exists in this language for this family of tasks.

    Raises:
        TeamError: It does not; the message names the close ones.
    """
    folder, known = Path(family), [*PRESETS, *MORE_PRESETS]
    if folder.is_absolute():
        files = folder.glob(f"*_{language}.json")
        known = sorted(file.name.removesuffix(f"_{language}.json") for file in files)
    if name not in known:
        names = ", ".join(known if folder.is_absolute() else PRESETS) or f"none in language {language!r}"
        raise TeamError(f"no preset team {name!r}; there are {names}{did_you_mean(name, known, cutoff=0.4)}")
    if folder.is_absolute():
        return
    families = MORE_PRESETS.get(name) or {
        each: languages for each, languages in FAMILIES.items() if name in FEW_TEAMS.get(each, PRESETS)
    }
    if language not in families.get(family, ()):
        there = "; ".join(f"{each} in {', '.join(languages)}" for each, languages in families.items())
        names = name if name in MORE_PRESETS else ", ".join(PRESETS)
        raise TeamError(
            f"no preset team {name!r} for {family!r} in language {language!r}; there are {names} for {there}"
        )


@lru_cache(maxsize=32)
def _preset(name: str, language: str, family: str) -> Team:
    check_preset(name, language, family)
    if Path(family).is_absolute():
        return Team.load(Path(family) / f"{name}_{language}.json")
    file = f"{family}_{name}_{language}.json"
    text = resources.files("marft_envs").joinpath("teams", "presets", file).read_text(encoding="utf-8")
    return Team._parse(text, f"marft_envs/teams/presets/{file}")
