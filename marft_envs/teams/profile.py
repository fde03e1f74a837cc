"""Agent profiles as data: name, system prompt, tools, private text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from marft_common.close_names import close_or_all
from marft_envs.spaces import Message, clean

ENVIRONMENT = "environment"
_NAME = re.compile(r"[a-z]+_[0-9]+")

UserPart = str | tuple[tuple[str, str], ...]


class TeamError(ValueError):
    """A team cannot be read or played; the message gives file and key, found against wanted."""


@dataclass(frozen=True)
class Profile:
    """One agent.

    Attributes:
        name: The agent's id, `word_0`; agents of one word are of one kind.
        system_prompt: Its role and instructions.
        answers: Its action is the team's answer (of several, the last of a round counts).
        examples: Worked examples: pairs of input and action. The input is a string, or, as in the game, pairs of
            author and text, where the environment is called "environment".
        tools: Names of its tools.
        private: Text for this agent alone; shown below its system prompt.
    """

    name: str
    system_prompt: str
    answers: bool = False
    examples: tuple[tuple[UserPart, str], ...] = ()
    tools: tuple[str, ...] = ()
    private: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise TeamError(f"agent id {self.name!r}: wanted lower-case letters, '_' and a number, like 'solver_0'")

    @cached_property
    def opening(self) -> tuple[Message, ...]:
        """The messages before a game, for an agent without a briefing."""
        return self.briefed("")

    def briefed(self, briefing: str) -> tuple[Message, ...]:
        """Return the messages before the game: system prompt with the briefing, and worked examples.

        Args:
            briefing: Text for the agent in this game, such as its tools; empty: none.
        """
        system = "\n\n".join(part for part in (self.system_prompt, self.private, briefing) if part)
        messages = [Message("system", clean(system))] if system else []
        for given, said in self.examples:
            parts = ((ENVIRONMENT, given),) if isinstance(given, str) else given
            messages += [Message("user", clean(text), author) for author, text in parts]
            messages.append(Message("assistant", clean(said), self.name))
        return tuple(messages)


def profile_to_dict(profile: Profile) -> dict[str, Any]:
    """Return the JSON form."""
    examples = [
        {"user": given if isinstance(given, str) else [list(part) for part in given], "assistant": said}
        for given, said in profile.examples
    ]
    return {
        "name": profile.name,
        "answers": profile.answers,
        "system_prompt": profile.system_prompt,
        "examples": examples,
        "tools": list(profile.tools),
        "private": profile.private,
    }


def profile_from_dict(value: Any, where: str) -> Profile:
    """Read the JSON form.

    Args:
        value: Object with the keys of a profile.
        where: Place named in error messages.

    Raises:
        TeamError: A missing or unknown key, or a wrong type.
    """
    known = tuple(entry.name for entry in fields(Profile))
    plain = checked_keys(value, where, required=known[:2], optional=known[2:])
    examples = checked(plain.get("examples", []), list, f"{where}.examples")
    tools = checked(plain.get("tools", []), list, f"{where}.tools")
    try:
        return Profile(
            name=checked(plain["name"], str, f"{where}.name"),
            system_prompt=checked(plain["system_prompt"], str, f"{where}.system_prompt"),
            answers=checked(plain.get("answers", False), bool, f"{where}.answers"),
            examples=tuple(_example(entry, f"{where}.examples[{place}]") for place, entry in enumerate(examples)),
            tools=tuple(checked(tool, str, f"{where}.tools[{place}]") for place, tool in enumerate(tools)),
            private=checked(plain.get("private", ""), str, f"{where}.private"),
        )
    except TeamError as error:
        raise TeamError(str(error) if str(error).startswith(where) else f"{where}.name: {error}") from error


def _example(value: Any, where: str) -> tuple[UserPart, str]:
    plain = checked_keys(value, where, required=("user", "assistant"), optional=())
    said = checked(plain["assistant"], str, f"{where}.assistant")
    given = plain["user"]
    if isinstance(given, str):
        return given, said
    for part in checked(given, list, f"{where}.user"):
        if not (isinstance(part, list) and len(part) == 2 and all(isinstance(item, str) for item in part)):
            raise TeamError(f"{where}.user: found {part!r}, wanted a pair [author, text]")
    return tuple((author, text) for author, text in given), said


def checked_keys(value: Any, where: str, *, required: tuple[str, ...], optional: tuple[str, ...]) -> Mapping[str, Any]:
    """Require an object with all required and no other than the optional keys.

    Raises:
        TeamError: It is none; the message names the key.
    """
    if not isinstance(value, Mapping):
        raise TeamError(f"{where}: found {type(value).__name__}, wanted an object with {', '.join(required)}")
    for key in required:
        if key not in value:
            raise TeamError(f"{where}: the key {key!r} is missing; it needs {', '.join(required)}")
    for key in value:
        if key not in required + optional:
            raise TeamError(f"{where}: unknown key {key!r}{close_or_all(str(key), required + optional)}")
    return value


def checked(value: Any, wanted: type, where: str) -> Any:
    """Require a type.

    Raises:
        TeamError: It is another.
    """
    if not isinstance(value, wanted):
        raise TeamError(f"{where}: found {value!r} ({type(value).__name__}), wanted {wanted.__name__}")
    return value
