"""Error of a plan that cannot be run, and the helpers that name its place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from marft_common.close_names import close_or_all


class PlanError(ValueError):
    """A plan that cannot be run; names the place, the value found and the value wanted."""


def or_refuse(where: str, work: Callable[[], Any]) -> Any:
    """Call `work`; name the place in the message of an input error."""
    try:
        return work()
    except PlanError as error:
        raise PlanError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, OSError, ImportError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        raise PlanError(f"{where}: {text}") from error


def refuse_unknown(what: str, found: Iterable[str], known: Collection[str], where: str = "") -> None:
    """Refuse names that are not known, with a close one if there is any."""
    place = f"{where}: " if where else ""
    for name in found:
        if name not in known:
            raise PlanError(f"{place}unknown {what} {name!r}{close_or_all(name, known)}")
