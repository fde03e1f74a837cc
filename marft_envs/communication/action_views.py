"""Communication forms: part of an action shown to its observers (full, last, record, summary, none).

| form | of every action that D shows |
|---|---|
| full | the whole text |
| last | the whole text of the most recent one, nothing of the others |
| record | its calls and their effects, as a compact typed record (see `marft_envs.tasks.tools.action_record`) |
| summary | the end of it: from the last line that begins with "Summary:" on, else its last paragraph |
| tail:N | its last N characters |
| none | nothing |

A form is a pure function of the actions of one agent that another may see, oldest first. None in its result hides that
action completely. D decides who may see whom; a form can only show less.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple


class Utterance(NamedTuple):
    """An action and its events.

    Attributes:
        action: Text of the action.
        events: Events of the agent in that round, once it is over; see `Outcome.events`.
    """

    action: str
    events: tuple[Mapping[str, Any], ...] = ()


Form = Callable[[Sequence[Utterance]], list[str | None]]
_SUMMARY_START = re.compile(r"^(?:summary|小结|总结)\s*[:：]", re.IGNORECASE | re.MULTILINE)
_SUMMARY_CHARS = 400


def full(said: Sequence[Utterance]) -> list[str | None]:
    """Carry every action whole."""
    return [utterance.action for utterance in said]


def last(said: Sequence[Utterance]) -> list[str | None]:
    """Carry the most recent action only.

    Examples:
        >>> last([Utterance("old"), Utterance("new")])
        [None, 'new']
    """
    carried: list[str | None] = [None] * len(said)
    if said:
        carried[-1] = said[-1].action
    return carried


def summary(said: Sequence[Utterance]) -> list[str | None]:
    r"""Carry the summary at the end of every action.

    Examples:
        >>> summary([Utterance("2 + 3 = 5, then 5 * 2 = 10.\n\nSummary: it is 10")])
        ['Summary: it is 10']
    """
    summaries: list[str | None] = []
    for utterance in said:
        starts = [match.start() for match in re.finditer(_SUMMARY_START, utterance.action)]
        # without the word "Summary" the last paragraph counts
        end = utterance.action[starts[-1] :] if starts else utterance.action.rstrip().rpartition("\n\n")[2]
        summaries.append(end[-_SUMMARY_CHARS:])
    return summaries


def tail(said: Sequence[Utterance], *, characters: int) -> list[str | None]:
    """Carry the end of every action.

    Examples:
        >>> tail([Utterance("12345"), Utterance("1")], characters=2)
        ['45', '1']
    """
    return [utterance.action[-characters:] for utterance in said]


def none(said: Sequence[Utterance]) -> list[str | None]:
    """Carry nothing."""
    return [None] * len(said)


def form_of(spec: str, where: str = "communication") -> Form:
    """Return the form with a given name.

    Args:
        spec: "full", "last", "record", "summary", "none", or "tail:N" with N characters, at least 1.
        where: Name of the setting in error messages.

    Raises:
        ValueError: It is no such name.
    """
    if spec in _FORMS:
        form = _FORMS[spec]
        found: Form = pkgutil.resolve_name(form) if isinstance(form, str) else form
        return found
    kind, _, count = str(spec).partition(":")
    if kind == "tail" and count.isascii() and count.isdigit() and int(count) > 0:
        return partial(tail, characters=int(count))
    raise ValueError(f"{where}: found {spec!r}, wanted {', '.join(map(repr, FORMS))} with N >= 1")


def register_form(name: str, form: Form | str) -> None:
    """Add a form.

    Args:
        name: Name of the form, as `form_of` takes it.
        form: The form; or "module:function", imported on first use.
    """
    if name not in _FORMS:
        FORMS.insert(-1, name)
    _FORMS[name] = form


_FORMS: dict[str, Form | str] = {"full": full, "last": last, "summary": summary, "none": none}
FORMS = [*_FORMS, "tail:N"]
"""The names of all forms; N stands for a number of characters."""


@dataclass(frozen=True)
class Communication:
    """Communication forms of all edges of a team.

    Attributes:
        default: Name of the form of all edges not in `edges`.
        edges: Names of forms by (seen, seeing).
    """

    default: str = "full"
    edges: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: str | Mapping[str, str] | Communication, agents: Sequence[str]) -> Communication:
        """Read a form for all edges, or `{"default": form, "a_0->b_0": form, ...}`.

        Raises:
            ValueError: An unknown form or agent, or a key of another shape.
        """
        if isinstance(spec, Communication):
            spec = spec.to_json()
        if isinstance(spec, str):
            spec = {"default": spec}
        if not isinstance(spec, Mapping):
            raise ValueError(
                f"communication: found {spec!r}, wanted {', '.join(map(repr, FORMS))} or a dict with "
                "'default' and 'i->j'"
            )
        edges: dict[tuple[str, str], str] = {}
        for key, name in spec.items():
            form_of(name, f"communication[{key!r}]")
            if key == "default":
                continue
            ends = tuple(end.strip() for end in str(key).split("->"))
            if len(ends) != 2 or any(end not in agents for end in ends):
                raise ValueError(
                    f"communication: found the key {key!r}, wanted 'default' or 'i->j' with two of {', '.join(agents)}"
                )
            edges[ends[0], ends[1]] = name
        return cls(spec.get("default", "full"), edges)

    def to_json(self) -> dict[str, str]:
        """Return the JSON form, which `of` reads back."""
        return {"default": self.default} | {f"{i}->{j}": name for (i, j), name in self.edges.items()}

    @cached_property
    def is_full(self) -> bool:
        """True if every edge carries everything, so that there is nothing to compute."""
        return self.default == "full" and all(name == "full" for name in self.edges.values())

    def carry(self, seen: str, seeing: str, said: Sequence[Utterance]) -> list[str | None]:
        """Apply the form of the edge (seen, seeing) to the actions it may show, oldest first."""
        return form_of(self.edges.get((seen, seeing), self.default))(said)
