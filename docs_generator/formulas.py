"""LaTeX blocks as MathML, which browsers draw without a script."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert


def math_block(source: str, *_: Any, **__: Any) -> str:
    """Convert a fenced block of the language `math`; a formatter of pymdownx.superfences."""
    return f'<div class="formula" tabindex="0">{convert(source, display="block")}</div>'
