"""English and Chinese units of measurement, with dimension and exact size, and the other words beside a number."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from marft_envs.grading.words import NO_WORDS, Words, read_words


class Unit(NamedTuple):
    """Meaning of a unit phrase.

    Attributes:
        kind: "measure" (known), "counter" (unknown words, such as apples) or "any" ("units").
        dimension: Sorted (base, exponent) pairs; empty for counters.
        size: Exact size in base units; 1 for counters.
        words: Words of the phrase that belong to no unit.
    """

    kind: str
    dimension: tuple[tuple[str, int], ...] = ()
    size: Fraction = Fraction(1)
    words: Words = NO_WORDS


_TABLE: dict[tuple[str, int], str] = {  # (base unit, exponent): lines of "size names"
    ("metre", 1): """
        1 m meter meters metre metres 米
        1/100 cm centimeter centimeters centimetre centimetres 厘米
        1/1000 mm millimeter millimeters millimetre millimetres 毫米
        1/10 dm decimeter decimeters 分米
        1000 km kilometer kilometers kilometre kilometres 千米 公里
        1/1000000000 nm
        127/5000 in inch inches
        381/1250 ft foot feet
        1143/1250 yd yard yards
        201168/125 mi mile miles""",
    ("metre", 2): """
        10000 hectare hectares ha 公顷
        1000000 平方千米 平方公里""",
    ("metre", 3): """
        1/1000 l liter liters litre litres 升
        1/1000000 ml milliliter milliliters millilitre millilitres 毫升""",
    ("gram", 1): """
        1 g gram grams 克
        1000 kg kilogram kilograms kilo kilos 千克 公斤
        1/1000 mg milligram milligrams 毫克
        1000000 ton tons tonne tonnes 吨
        500 斤""",
    ("pound", 1): """
        1 lb lbs pound pounds
        1/16 oz ounce ounces""",
    ("second", 1): """
        1 s sec secs second seconds 秒 秒钟
        60 min mins minute minutes 分钟
        3600 h hr hrs hour hours 小时 时
        86400 day days 天 日
        604800 week weeks 周 星期""",
    ("month", 1): """
        1 month months 个月 月
        12 year years yr yrs 年""",
    ("dollar", 1): """
        1 dollar dollars usd buck bucks 美元
        1/100 cent cents penny pennies ¢""",
    ("yuan", 1): """
        1 元 块 yuan rmb cny yen 元钱 块钱
        1/10 角 毛""",
    ("euro", 1): "1 euro euros",
    ("turn", 1): """
        1/360 degree degrees deg 度
        1/21600 arcminute arcminutes
        1/1296000 arcsecond arcseconds""",
    ("radian", 1): "1 radian radians rad 弧度",
    ("celsius", 1): "1 celsius 摄氏度",
    ("fahrenheit", 1): "1 fahrenheit",
    ("gallon", 1): "1 gallon gallons gal\n1/4 quart quarts\n1/8 pint pints\n1/16 cup cups",
    ("newton", 1): "1 newton newtons",
    ("joule", 1): "1 joule joules",
    ("watt", 1): "1 watt watts\n1000 kw kilowatt kilowatts 千瓦",
    ("hertz", 1): "1 hz hertz\n1000 khz",
    ("mole", 1): "1 mol mole moles",
}
_SPEEDS = {
    "mph": ("mile", "hour"), "kph": ("km", "hour"), "kmh": ("km", "hour"), "rpm": ("turns", "minute"),
}  # fmt: skip
_KNOWN: dict[str, tuple[str, int, Fraction]] = {
    name: (base, exponent, Fraction(line.split()[0]))
    for (base, exponent), lines in _TABLE.items()
    for line in lines.strip().splitlines()
    for name in line.split()[1:]
}
_ANY = frozenset({"unit", "units", "单位"})
_POWER_BEFORE = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_POWER_BEHIND = {"squared": 2, "cubed": 3}
_SMALL_CHANGE = {"yuan": Fraction(1, 100), "second": Fraction(60)}  # 分 after 元 or 角, and after 小时


@lru_cache(maxsize=4096)
def unit(phrase: str) -> Unit:
    """Parse a unit phrase of tokens separated by blanks: "miles / hour", "cm ^ 2", "平方厘米".

    Words before the number end with "#": "鸡 # 只".
    """
    dimension: dict[str, int] = {}
    size = Fraction(1)
    sign = 1  # -1 behind "per"
    power = 1  # of "square" or "cubic" before the next unit
    is_any = is_known = False
    before, _, behind = f" {phrase} ".rpartition(" # ")
    words = behind.split()
    others: list[str] = []
    for index, word in enumerate(words):
        lower = word.lower()
        if lower in ("/", "per", "每", "a"):
            sign = -1
        elif lower in _POWER_BEFORE:
            power = _POWER_BEFORE[lower]
        elif lower in _ANY:
            is_any = True
        elif (is_known or is_any) and (not word.isalpha() or lower in _POWER_BEHIND):
            continue  # an exponent, which belongs to the unit before it
        else:
            total_power = sign * power * _power_behind(words[index + 1 : index + 5])
            parts, rest = _parts(word)
            for base, exponent, factor in parts:
                dimension[base] = dimension.get(base, 0) + exponent * total_power
                size *= factor**total_power
                is_known = True
            power = 1
            others += [rest] if rest else []
    found = read_words(others, before.split())
    if is_known:
        return Unit("measure", tuple(sorted((base, total) for base, total in dimension.items() if total)), size, found)
    return Unit("any" if is_any or not words else "counter", words=found)


def conflict(first: Unit, second: Unit) -> bool:
    """True if two units cannot belong to one answer: 5 cm and 5 s, 12 days and 12 dogs, 5 units and 5 dogs."""
    if "any" in (first.kind, second.kind):
        return bool(first.words.nouns) != bool(second.words.nouns) and "counter" in (first.kind, second.kind)
    return first.kind != second.kind or first.dimension != second.dimension


def combined(first: str, second: str) -> Fraction | None:
    """Return the size of the second unit in the first, as in 12 元 5 角; None if they do not add."""
    one, other = unit(first), unit(second)
    if second in ("分", "分钱") and one.dimension and one.dimension[0][0] in _SMALL_CHANGE:
        return _SMALL_CHANGE[one.dimension[0][0]] / one.size
    if one.kind != "measure" or one.dimension != other.dimension:
        return None
    return other.size / one.size


def _parts(word: str) -> tuple[list[tuple[str, int, Fraction]], str]:
    """Return the (base, exponent, size) of the units in one word, and the part of it that is none."""
    known = _KNOWN.get(word) or _KNOWN.get(word.lower())
    if known:
        return [known], ""
    if word.lower() in _SPEEDS:
        above, below = (_KNOWN.get(name, (name, 1, Fraction(1))) for name in _SPEEDS[word.lower()])
        return [above, (below[0], -below[1], 1 / below[2])], ""
    return ([], word) if word.isascii() else _chinese_parts(word)


def _chinese_parts(word: str) -> tuple[list[tuple[str, int, Fraction]], str]:
    """Read 平方米, 立方厘米 and a unit followed by a noun (千克苹果)."""
    name = word.removeprefix("个") or word
    for prefix, power in (("平方", 2), ("立方", 3)):
        if name.startswith(prefix):
            parts, rest = _chinese_parts(name[2:])
            return [(base, exponent * power, size**power) for base, exponent, size in parts], rest
    for length in range(min(len(name), 4), 0, -1):
        if name[:length] in _KNOWN:
            return [_KNOWN[name[:length]]], name[length:]
    return [], word


def _power_behind(words: list[str]) -> int:
    """Read ``^ 2``, ``^ { 2 }`` or "squared" after a unit."""
    if words and words[0].lower() in _POWER_BEHIND:
        return _POWER_BEHIND[words[0].lower()]
    if words[:1] == ["^"]:
        sign = -1 if "-" in words[1:3] else 1
        digits = next((word for word in words[1:4] if word.isdecimal()), "1")
        return sign * int(digits[:2])  # two digits bound the power
    return 1
