"""Unicode normalization to the ASCII and LaTeX spelling of the tokenizer."""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ", "0123456789+-ni", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_FRACTIONS = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ",
    "∙": r"\cdot ", "•": r"\cdot ", "∗": "*", "÷": r"\div ", "∕": "/", "⁄": "/", "√": r"\sqrt ",
    "∛": r"\sqrt[3]", "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ",
    "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ", "±": r"\pm ", "∓": r"\mp ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "∖": r"\setminus ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "°": r"^\circ ",
    "′": "'", "″": "''", "’": "'", "‘": "'", "“": '"', "”": '"', "∠": r"\angle ", "→": r"\to ",
    "⟨": r"\langle ", "⟩": r"\rangle ", "〈": r"\langle ", "〉": r"\rangle ", "⌊": r"\lfloor ",
    "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "…": "...", "€": r"\euro ", "£": r"\pounds ",
    "¥": r"\yen ", "￥": r"\yen ", "。": ".", "、": ",", "，": ",", "；": ";", "∶": ":", "：": ":",
    "【": "[", "】": "]", "　": " ", "\u00a0": " ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ",
    "δ": r"\delta ", "ε": r"\epsilon ", "θ": r"\theta ", "λ": r"\lambda ", "μ": r"\mu ", "ρ": r"\rho ",
    "σ": r"\sigma ", "τ": r"\tau ", "φ": r"\phi ", "ϕ": r"\phi ", "ω": r"\omega ", "Δ": r"\Delta ",
    "Ω": r"\Omega ", "Σ": r"\Sigma ",
}  # fmt: skip
_TABLE = str.maketrans(
    {
        **{char: f"_{{{plain}}}" for char, plain in _SUBSCRIPTS.items()},
        **{char: f" {plain} " for char, plain in _FRACTIONS.items()},
        **_SYMBOLS,
        **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\ufeff\u00ad", ""),
    }
)


_RATIO_WORD = re.compile(r"(?<=[\d})])\s?比\s?(?=[\d\\(])")


def plain_characters(text: str) -> str:
    r"""Rewrite typographic characters in ASCII and LaTeX; full-width forms are normalized (NFKC).

    Example:
        >>> plain_characters("２√３ ≤ x²")
        '2\\sqrt 3 \\le  x^{2}'
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _RATIO_WORD.sub(":", _superscripts(text)).translate(_TABLE))
    return text.translate(_TABLE) if not text.isascii() else text


def _superscripts(text: str) -> str:
    """Write each run of superscript characters as one ``^{...}``."""
    if not any(char in _SUPERSCRIPTS for char in text):
        return text
    parts: list[str] = []
    inside = False
    for char in text:
        raised = char in _SUPERSCRIPTS
        if raised != inside:
            parts.append("^{" if raised else "}")
            inside = raised
        parts.append(_SUPERSCRIPTS.get(char, char))
    return "".join(parts) + ("}" if inside else "")
