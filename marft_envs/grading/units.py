"""English and Chinese units of measurement, with dimension and exact size."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple


class Unit(NamedTuple):
    """Meaning of a unit phrase.

    Attributes:
        kind: "measure" (known), "counter" (unknown words, such as apples) or "any" ("units").
        dimension: Sorted (base, exponent) pairs; empty for counters.
        size: Exact size in base units; 1 for counters.
    """

    kind: str
    dimension: tuple[tuple[str, int], ...] = ()
    size: Fraction = Fraction(1)


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
    """Parse a unit phrase of tokens separated by blanks: "miles / hour", "cm ^ 2", "平方厘米"."""
    dimension: dict[str, int] = {}
    size = Fraction(1)
    sign = 1  # -1 behind "per"
    power = 1  # of "square" or "cubic" before the next unit
    is_any = is_known = False
    words = phrase.split()
    for index, word in enumerate(words):
        lower = word.lower()
        if lower in ("/", "per", "每", "a"):
            sign = -1
        elif lower in _POWER_BEFORE:
            power = _POWER_BEFORE[lower]
        elif lower in _ANY:
            is_any = True
        else:
            total_power = sign * power * _power_behind(words[index + 1 : index + 5])
            for base, exponent, factor in _parts(word):
                dimension[base] = dimension.get(base, 0) + exponent * total_power
                size *= factor**total_power
                is_known = True
            power = 1
    if is_known:
        return Unit("measure", tuple(sorted((base, total) for base, total in dimension.items() if total)), size)
    return Unit("any" if is_any else "counter")


def conflict(first: Unit, second: Unit) -> bool:
    """True if two units cannot belong to one answer: 5 cm and 5 s, 12 days and 12 dogs."""
    if "any" in (first.kind, second.kind):
        return False
    return first.kind != second.kind or first.dimension != second.dimension


def combined(first: str, second: str) -> Fraction | None:
    """Return the size of the second unit in the first, as in 12 元 5 角; None if they do not add."""
    one, other = unit(first), unit(second)
    if second in ("分", "分钱") and one.dimension and one.dimension[0][0] in _SMALL_CHANGE:
        return _SMALL_CHANGE[one.dimension[0][0]] / one.size
    if one.kind != "measure" or one.dimension != other.dimension:
        return None
    return other.size / one.size


def _parts(word: str) -> list[tuple[str, int, Fraction]]:
    """Return the (base, exponent, size) of one word; empty if it is not a unit."""
    known = _KNOWN.get(word) or _KNOWN.get(word.lower())
    if known:
        return [known]
    if word.lower() in _SPEEDS:
        above, below = (_KNOWN.get(name, (name, 1, Fraction(1))) for name in _SPEEDS[word.lower()])
        return [above, (below[0], -below[1], 1 / below[2])]
    return [] if word.isascii() else _chinese_parts(word)


def _chinese_parts(word: str) -> list[tuple[str, int, Fraction]]:
    """Read 平方米, 立方厘米 and a unit followed by a noun (千克苹果)."""
    word = word.removeprefix("个") or word
    for prefix, power in (("平方", 2), ("立方", 3)):
        if word.startswith(prefix):
            return [(base, exponent * power, size**power) for base, exponent, size in _chinese_parts(word[2:])]
    for length in range(min(len(word), 4), 0, -1):
        if word[:length] in _KNOWN:
            return [_KNOWN[word[:length]]]
    return []


def _power_behind(words: list[str]) -> int:
    """Read ``^ 2``, ``^ { 2 }`` or "squared" after a unit."""
    if words and words[0].lower() in _POWER_BEHIND:
        return _POWER_BEHIND[words[0].lower()]
    if words[:1] == ["^"]:
        sign = -1 if "-" in words[1:3] else 1
        digits = next((word for word in words[1:4] if word.isdecimal()), "1")
        return sign * int(digits[:2])  # two digits bound the power
    return 1
