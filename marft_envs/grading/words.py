"""Words beside a number: the things that it counts, and words that change what it says.

Beside a bare number, a noun phrase is dropped: "12 marbles" is 12. Words of the lists below are never dropped, since
"10% increase" is not 10%, and neither is "not 10%". Words beside both numbers must agree.

Sources of the lists:

- English opposites: antonyms of WordNet 3.1 that tell a direction, a parity or an order, with their inflections.
- English negation and comparison: Huddleston and Pullum, The Cambridge Grammar of the English Language (2002),
  chapters 9 and 13. Auxiliary verbs and relative pronouns show that a phrase is a clause.
- Chinese negation, localizers, directional verbs and measure words: Lü Shuxiang, 现代汉语八百词 (1999), with its table
  of measure words. Verbs of change and property words are those of problems in primary school.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from marft_envs.grading.number_words import english_value


class Words(NamedTuple):
    """Words beside a number in canonical form.

    Attributes:
        nouns: The words without articles and plural endings: what is counted, or any other statement.
        measure_word: Chinese measure word (只, 本), without 个, which goes with any noun.
        is_polar: True with a word of negation, direction, parity or another property that has an opposite.
        is_neutral: True if the words may be dropped beside a bare number.
    """

    nouns: tuple[str, ...] = ()
    measure_word: str = ""
    is_polar: bool = False
    is_neutral: bool = True


NO_WORDS = Words()


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATION = _set("""
    not no none never neither nor without nobody nothing cannot non except unless hardly barely scarcely few little
    false wrong incorrect impossible invalid
""")
DIRECTION = _set("""
    up down upward downward upwards downwards upstream downstream uphill downhill above below over under
    north south east west northeast northwest southeast southwest northward southward eastward westward
    clockwise counterclockwise anticlockwise forward backward forwards backwards ahead behind back before after ago
    inside outside inward outward inwards outwards out early late earlier later sooner fast slow faster slower
    increase increases increased increasing decrease decreases decreased decreasing
    rise rises rose risen rising fall falls fell fallen falling raise raised lower lowered
    grow grows grew grown growing growth shrink shrinks shrank shrunk shrinking expand expanded contract contracted
    ascend ascending ascent descend descending descent drop drops dropped reduce reduced reduction decline declined
    gain gains gained loss losses lose loses lost profit profits win wins won surplus deficit
    debit credit deposit deposited withdraw withdrawal withdrawn income expense expenses inflow outflow
    appreciation depreciation markup discount import export plus minus added subtracted removed
    taller shorter longer older younger heavier lighter hotter colder warmer cooler cheaper higher deeper
""")
PARITY = _set("odd even uneven")
PROPERTIES = _set("""
    prime composite positive negative rational irrational finite infinite increasing decreasing true right
""")  # as the last word: "n prime", but 4 prime numbers and 14 right triangles are counted; 15 apples left are 15
COMPARISON = _set("""
    than more less fewer greater smaller larger bigger least most equal equals exceed exceeds minimum maximum min max
    between within beyond divides divisible
""")
CLAUSE = _set("""
    is are was were be been being am has have had having do does did can could may might must shall should will would
    that which who whom whose but because instead rather so then hence thus therefore
""")
NUMERALS = _set("""
    hundred hundreds thousand thousands million millions billion billions dozen dozens half halves twice thrice double
    triple percent percentage pct
""")
_UNMARKED = _set("the a an of is are was were be total altogether")
_PLURALS = {"children": "child", "men": "man", "women": "woman", "people": "person", "mice": "mouse", "geese": "goose"}

_POLAR_ZH = re.compile(
    r"不(?!同)|没|无|非(?!洲)|未|否|除|错"
    r"|上涨|上升|上调|升[高值]|提[高升]|增|涨|下[降跌调滑]|降|跌|减|缩小|扩大|贬值|赚|亏|盈|收入|支出|存入|取出"
    r"|前进|后退|上[坡行]|下[坡行]|[顺逆]时针|[顺逆]流|零[上下]|提前|推迟|迟到|[早晚快慢多少][了出]?$"
    r"|[向往朝偏正][东南西北上下左右前后里外]|[东南西北上下左右前后里外内][边侧面方]|[东西][南北]|[以之][东南西北前后左右内外]"
    r"|奇数?$|偶数?$|奇数|偶数|[单双]数"
)
_PROPERTY_ZH = re.compile(r"[质素合正负整]数$|有理数$")  # n是质数, but 3个质数 are counted
_COMPARISON_ZH = re.compile(
    r"大于|小于|超过|[多少高低]于|[以之][上下间]|至[少多]|最[多少大小高低]|比(?![赛例是为值])|介于"
)
_PARTICLES = """
    所以 因此 答案 答 一共 总共 共计 合计 总计 共 还 剩下 剩余 剩 大约 大概 约 需要 可以
    等于 即 就 得 有 是 为 的 了 第 当 若
"""
_PARTICLES_ZH = tuple(_PARTICLES.split())  # before and behind a noun
_BEHIND_ZH = (*_PARTICLES_ZH, "时", "左右")
_MEASURE_WORDS = frozenset(
    "个只条本张支枝名位头匹辆架艘台件块片颗粒棵朵根把双对副套组群批堆束串袋包箱盒瓶杯碗盘桶筐篮层座间所家场次回遍趟页行排列"
    "段节篇首幅道题种类份人队班"
)


def read_words(phrase: Sequence[str], before: Sequence[str] = ()) -> Words:
    """Return the words behind a number, and those before it, in canonical form."""
    nouns: list[str] = []
    is_polar, is_neutral, measure_word = False, True, ""
    for place, word in enumerate((*before, *phrase)):
        if not word.isascii():
            noun, measure = _chinese_noun(word, is_behind=place >= len(before))
            measure_word = measure_word or measure
            is_polar |= bool(_POLAR_ZH.search(word) or (not measure and _PROPERTY_ZH.search(noun)))
            is_neutral &= not _COMPARISON_ZH.search(word)
            nouns += [noun] if noun else []
            continue
        lower = word.lower()
        is_last = place == len(before) + len(phrase) - 1
        is_polar |= lower in NEGATION or lower in DIRECTION or lower in PARITY or (is_last and lower in PROPERTIES)
        is_statement = lower in COMPARISON or lower in CLAUSE or lower in NUMERALS
        is_neutral &= len(word) > 1 and word.isalpha() and not is_statement and english_value(lower) is None
        if lower not in _UNMARKED:
            nouns.append(_singular(lower))
    return Words(tuple(nouns), "" if measure_word == "个" else measure_word, is_polar, is_neutral and not is_polar)


def agree(first: Words, second: Words, is_bare: bool = True) -> bool:
    """True if the words beside two equal numbers say the same, or those beside one may be dropped.

    Words are only dropped beside a bare number, not beside an expression with variables.
    """
    if first.nouns and second.nouns:
        return first.nouns == second.nouns
    if not is_bare and (first.nouns or second.nouns):
        return False
    if first.measure_word and second.measure_word and first.measure_word != second.measure_word:
        return False
    return first.is_neutral and second.is_neutral


def joined(first: Words, second: Words) -> Words:
    """Return the words of two phrases beside one number."""
    return Words(
        first.nouns + second.nouns,
        first.measure_word or second.measure_word,
        first.is_polar or second.is_polar,
        first.is_neutral and second.is_neutral,
    )


def negates(text: str) -> bool:
    """True if a name in words, such as "not x", is negated."""
    return any(word in NEGATION for word in text.lower().split()) or bool(re.search(r"[不没非未]", text))


def _singular(word: str) -> str:
    if word in _PLURALS:
        return _PLURALS[word]
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("xes", "ches", "shes", "sses", "oes")) else word[:-1]


def _chinese_noun(word: str, is_behind: bool) -> tuple[str, str]:
    """Split a run of Chinese characters into its noun and the measure word behind a number."""
    measure = word[0] if is_behind and word[0] in _MEASURE_WORDS else ""
    noun = word[len(measure) :]
    while noun.startswith(_PARTICLES_ZH):
        noun = noun[len(next(filter(noun.startswith, _PARTICLES_ZH))) :]
    while noun.endswith(_BEHIND_ZH):
        noun = noun[: -len(next(filter(noun.endswith, _BEHIND_ZH)))]
    return (noun.removesuffix("子") or noun), measure
