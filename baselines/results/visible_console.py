"""Tables of commands: a console of rich that shows texts as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType  # noqa: TID251 - elsewhere it is banned
from rich.segment import Segment
from rich.text import Text

from marft_common.visible_text import visible

TABLE_WIDTH = 140  # characters, where the output is not a terminal


class VisibleConsole(Console):
    """Console without markup, highlights and emoji names, which escapes what a terminal would obey.

    Args:
        keywords: Those of rich's console.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **keywords)

    def render_str(self, text: str, **keywords: Any) -> Text:
        """Return a text to be laid out."""
        return super().render_str(visible(text), **keywords)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return pieces of the output; texts that were no plain strings are escaped here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def console(*, error: bool = False, width: int | None = None, colours: bool = True) -> Console:
    """Return a console.

    Args:
        error: True writes to standard error.
        width: Characters of a line where the output is not a terminal; None takes those of the environment.
        colours: False prints without any escape code.
    """
    keywords: dict[str, Any] = {"stderr": error} | ({} if colours else {"color_system": None})
    made = VisibleConsole(**keywords)
    return made if made.is_terminal or width is None else VisibleConsole(width=width, **keywords)
