"""Words in answers: separators, conditions, "no solution", and the canonical form of texts."""

from __future__ import annotations

import re

from marft_envs.grading.expression import Node

SEPARATORS = frozenset({",", ";", "and", "or", "newline", "和", "或", "或者", "与", "及"})
CONDITION_WORDS = frozenset({"where", "for", "if", "when", "with", "given", "such", "because", "since"})
ANOTHER_NUMBER = re.compile(r"不是|不等|并非|不到|不足|不超|不少|不多|不满|少于|多于|小于|大于|低于|高于|超过")
_EMPTY = re.compile(
    r"(?:there (?:is|are|exists?) )?(?:no(?: (?:real|integer|such|valid|possible|positive)){0,2}"
    r"(?: (?:solutions?|roots?|answers?|values?|integers?|numbers?|functions?|pairs?|triples?|[a-z]))"
    r"|none|null|null set|empty|empty set)(?: exists?)?|无解|空集"
)
_UNDEFINED = frozenset({"undefined", "dne", "does not exist", "doesnotexist", "indeterminate"})


def text_node(text: str) -> Node:
    """Return the node of words in canonical form, without case, articles and quotes."""
    words = re.sub(r"[\"'.`{}]", "", text.lower())
    words = re.sub(r"^(?:the|a|an) ", "", " ".join(words.split()))
    if _EMPTY.fullmatch(words):
        return Node("emptyset")
    if words in ("all real numbers", "all reals", "real numbers", "reals"):
        return Node("numbers", name="R")
    if words in ("infinity", "infinite", "positive infinity"):
        return Node("const", name="oo")
    return Node("text", name="undefined" if words in _UNDEFINED else words)
