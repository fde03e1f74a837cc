"""Communication between agents: the part of an action that an edge of D carries, by forms with a name."""

from typing import TYPE_CHECKING, Any

from marft_envs.communication.action_views import (
    FORMS,
    Communication,
    Form,
    Utterance,
    form_of,
    full,
    last,
    none,
    register_form,
    summary,
    tail,
)

__all__ = [
    "FORMS",
    "Communication",
    "Form",
    "Utterance",
    "form_of",
    "full",
    "last",
    "none",
    "register_form",
    "summary",
    "tail",
]

if not TYPE_CHECKING:  # else every misspelt name would pass the type checker

    def __getattr__(name: str) -> Any:
        if name == "record":  # the form reads tool calls, whose module loads on first use
            return form_of("record")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
