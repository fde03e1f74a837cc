"""What an edge of D carries: the text of an action, the last one only, its tail, or nothing.

A form is a pure function of the actions of one agent that another may see, oldest first; None in its result
means that nothing of that action is shown. D decides who may see whom; a form can only show less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

Form = Callable[[Sequence[str]], list[str | None]]


def full(texts: Sequence[str]) -> list[str | None]:
    """Carry every action whole."""
    return list(texts)


def last(texts: Sequence[str]) -> list[str | None]:
    """Carry the most recent action only.

    Example:
        >>> last(["old", "new"])
        [None, 'new']
    """
    return [*[None] * (len(texts) - 1), *texts[-1:]]


def tail(texts: Sequence[str], *, characters: int) -> list[str | None]:
    """Carry the end of every action.

    Example:
        >>> tail(["12345", "1"], characters=2)
        ['45', '1']
    """
    return [text[-characters:] for text in texts]


def none(texts: Sequence[str]) -> list[str | None]:
    """Carry nothing."""
    return [None] * len(texts)


def form_of(spec: str, where: str = "communication") -> Form:
    """Return the form of a name.

    Args:
        spec: "full", "last", "none", or "tail:N" with N characters, at least 1.
        where: Names the place in messages.

    Raises:
        ValueError: It is no such name.
    """
    plain: dict[str, Form] = {"full": full, "last": last, "none": none}
    if spec in plain:
        return plain[spec]
    kind, _, count = str(spec).partition(":")
    if kind == "tail" and count.isascii() and count.isdigit() and int(count) > 0:
        return partial(tail, characters=int(count))
    raise ValueError(f"{where}: found {spec!r}, wanted 'full', 'last', 'none' or 'tail:N' with N >= 1")


@dataclass(frozen=True)
class Communication:
    """The form of every edge.

    Attributes:
        default: The name of the form of all edges not in `edges`.
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
                f"communication: found {spec!r}, wanted 'full', 'last', 'none', 'tail:N' or a dict with 'default' "
                "and 'i->j'"
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
        """Return the form that `of` reads back."""
        return {"default": self.default} | {f"{i}->{j}": name for (i, j), name in self.edges.items()}

    @property
    def is_full(self) -> bool:
        """Every edge carries everything, so there is nothing to compute."""
        return self.default == "full" and all(name == "full" for name in self.edges.values())

    def carry(self, seen: str, seeing: str, texts: Sequence[str]) -> list[str | None]:
        """Apply the form of the edge (seen, seeing) to the actions it may show, oldest first."""
        return form_of(self.edges.get((seen, seeing), self.default))(texts)
