"""Extraction of the groups of one regular expression from many lines, as arrays of numbers."""

import gc
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.lines.literals import VARYING, looks_at_other_lines, required
from trainmark.logs.lines.suffixes import ANY_YEAR, SHORT_STAMP_BYTES, SUFFIX, suffix_factor
from trainmark.logs.lines.transport import strip_colours
from trainmark.logs.model import Floats

STAMP = rb"\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
"""A date and a time of day, as DLLogger, Python's logging and Paddle print them."""
SHORT_STAMP = rb"\d\d/\d\d \d\d:\d\d:\d\d"
"""The same without a year, as PaddleDetection prints it: read as a date of a leap year."""
_UNITS = {
    "rate_thousands": ("rate", 1e3),
    "rate_millions": ("rate", 1e6),
    "rate_per_min": ("rate", 1 / 60),
    "rate_per_h": ("rate", 1 / 3600),
    "steps_per_min": ("steps_per_s", 1 / 60),
    "steps_per_h": ("steps_per_s", 1 / 3600),
    "samples_thousands": ("samples", 1e3),
    "samples_millions": ("samples", 1e6),
    "step_thousands": ("step", 1e3),
    "step_millions": ("step", 1e6),
    "consumed_thousands": ("consumed", 1e3),
    "consumed_millions": ("consumed", 1e6),
    "consumed_billions": ("consumed", 1e9),
    "step_time_ms": ("step_time_s", 1e-3),
    "step_time_us": ("step_time_s", 1e-6),
    "step_time_m": ("step_time_s", 60.0),
    "step_time_h": ("step_time_s", 3600.0),
    "average_time_ms": ("average_time_s", 1e-3),
    "average_time_us": ("average_time_s", 1e-6),
    "data_time_ms": ("data_time_s", 1e-3),
    "clock_ms": ("clock_s", 1e-3),
    "clock_m": ("clock_s", 60.0),
    "clock_h": ("clock_s", 3600.0),
    "clock_d": ("clock_s", 86_400.0),
    "extra_time_s": ("step_time_s", 1.0),
}
_PARTS = (
    *(
        f"{name}_{part}"
        for name in ("rate", "samples", "step", "consumed")
        for part in ("thousands", "millions")
    ),
    "consumed_billions",
    "clock_m",
    "clock_h",
    "clock_d",
    "step_time_m",
    "step_time_h",
    "extra_time_s",
)
_SEARCHED_BYTES = 1 << 15
"""Irregular text is halved down to this size, so that an irregular line slows down only its neighbours."""
_SHORT_BYTES = 1 << 14
"""Shorter text is searched at once: arrays pay off from about 500 lines."""
_MOSTLY = 0.95
_STAMP_BYTES = 29
_FEBRUARY = 2
_DAY_S = 86_400.0
_MOST_OF_A_DAY_S = 64_800.0
"""A time of day that falls by more, within less than six hours, is past midnight; a run begun anew rarely does."""
_DAYS_BEFORE_MONTH = np.array([0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 0, 0, 0])


class Extract(NamedTuple):
    """Columns of fields, and sample lines that represent the text except for its finite numbers."""

    columns: dict[str, Floats]
    samples: list[bytes]


def extract(pattern: re.Pattern[bytes], text: bytes, header: re.Pattern[bytes] | None = None) -> Extract:
    """Return the columns of all matches of ``pattern`` in ``text``, by the names of its groups.

    Groups are named as in ``FIELDS``, or ``stamp`` (returned as ``clock_s``, seconds since 1970). A value that is not a
    number becomes NaN. No column means no match. Text that contains a match of ``header``, the start of a log, is
    returned whole in the samples.
    """
    if len(text) <= _SEARCHED_BYTES:
        return _in_parts(pattern, text)
    from trainmark.logs.lines.bulk import fields_among_others

    if regular := fields_among_others(pattern, text, header):
        return Extract(regular[0], [regular[1]])
    lines, others = text, b""
    if not _is_regular_at_start(text):
        lines, others = _of_interest(pattern, text)
        if others and len(lines) > _SEARCHED_BYTES and (regular := fields_among_others(pattern, lines, None)):
            return Extract(regular[0], [regular[1], others] if regular[0] else [text])
    found = _in_parts(pattern, lines)
    if not others:
        return found
    return Extract(found.columns, [*found.samples, others] if found.columns else [text])


def _is_regular_at_start(text: bytes) -> bool:
    first, second = (line.translate(None, VARYING) for line in text[:_SEARCHED_BYTES].split(b"\n", 2)[:2])
    return first == second


def _of_interest(pattern: re.Pattern[bytes], text: bytes) -> tuple[bytes, bytes]:
    """Return the lines of ``text`` that ``pattern`` may match, and the other lines."""
    from trainmark.logs.lines.digits import Characters

    words = required(pattern)
    if not all(words) or looks_at_other_lines(pattern):
        return text, b""
    places = [_places(word, text) for word in words]
    if not any(map(len, places)):
        return text, b""
    text += b"" if text.endswith(b"\n") else b"\n"
    characters = Characters.of(text)
    ends = characters.line_ends() - 1
    wanted = np.zeros(len(ends), np.bool_)
    for found in places:
        wanted[np.searchsorted(ends, found)] = True
    if wanted.mean() > _MOSTLY:
        return text, b""
    chosen = np.repeat(wanted, np.diff(ends, prepend=-1))
    single = characters.single[: len(text)]
    return single[chosen].tobytes(), single[~chosen].tobytes()


def _places(word: bytes, text: bytes) -> NDArray[np.int64]:
    """Return the last position of each occurrence of ``word``."""
    between = text.split(word)
    return np.cumsum(np.fromiter(map(len, between[:-1]), np.int64, len(between) - 1) + len(word)) - 1


def _regular_fields(pattern: re.Pattern[bytes], text: bytes) -> dict[str, Floats] | None:
    from trainmark.logs.lines.bulk import regular_fields

    return regular_fields(pattern, text)


def _in_parts(pattern: re.Pattern[bytes], text: bytes) -> Extract:
    if len(text) > _SHORT_BYTES and (found := _regular_fields(pattern, text)) is not None:
        return Extract(found, [strip_colours(text[: text.find(b"\n")])])
    if len(plain := strip_colours(text)) < len(text):
        return _in_parts(pattern, plain)
    middle = text.find(b"\n", len(text) // 2) + 1
    if len(text) <= _SEARCHED_BYTES or not 0 < middle < len(text):
        return Extract(_searched(pattern, text), [text])
    left, right = _in_parts(pattern, text[:middle]), _in_parts(pattern, text[middle:])
    samples = left.samples + right.samples
    if not left.columns or not right.columns:
        return Extract(left.columns or right.columns, samples)
    joined = {name: np.concatenate((left.columns[name], right.columns[name])) for name in left.columns}
    return Extract(joined, samples)


def derived(columns: dict[str, Floats]) -> dict[str, Floats]:
    """Return ``columns`` converted to the units of ``FIELDS``.

    ``rate_thousands`` and ``rate_millions`` are digits before a comma; ``…_ms`` and ``…_us`` are milli- and
    microseconds; ``clock_h`` and ``clock_m`` are hours and minutes to add to ``clock_s``, ``clock_month`` and
    ``clock_d`` a day of the year, and ``extra_time_s`` seconds that ``step_time_s`` leaves out; ``batch`` is the
    samples of one step over all devices, which turns its time into a rate; ``seconds`` (of the record) turns a rate
    into samples, samples into a rate, or the ``steps`` of the record into the time of one;
    ``…_suffix`` is the factor of the unit that a line prints after a number (``1.2K``, ``35 ms``).
    """
    for name in [name for name in columns if name.endswith(SUFFIX)]:
        columns[name.removesuffix(SUFFIX)] *= columns.pop(name)
    if (months := columns.pop("clock_month", None)) is not None:
        columns["clock_d"] += _days_before(months)
    for name, (field, factor) in _UNITS.items():
        if (values := columns.pop(name, None)) is not None:
            part = np.where(np.isnan(values), 0.0, values) * factor if name in _PARTS else values * factor
            before = columns.get(field)
            columns[field] = part if before is None else _sum(before, part, name in _PARTS)
    for name, field in (("average_steps_per_s", "average_time_s"), ("steps_per_s", "step_time_s")):
        if (pace := columns.pop(name, None)) is not None:
            with np.errstate(divide="ignore"):
                inverse = 1 / pace
            other = columns.get(field)
            columns[field] = inverse if other is None else _sum(other, inverse, False)
    steps = columns.pop("steps", None)
    if (seconds := columns.pop("seconds", None)) is not None:
        if steps is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                columns["step_time_s"] = np.where(steps > 0, seconds / steps, np.nan)
        elif "rate" in columns:
            columns["samples"] = seconds * columns["rate"]
        elif "samples" in columns:
            with np.errstate(divide="ignore", invalid="ignore"):
                columns["rate"] = np.where(seconds > 0, columns["samples"] / seconds, np.nan)
    if (batch := columns.pop("batch", None)) is not None:
        if "step_time_s" in columns and "rate" not in columns:
            with np.errstate(divide="ignore", invalid="ignore"):
                columns["rate"] = batch / columns.pop("step_time_s")
        columns["samples"] = batch
    return columns


def _days_before(months: Floats) -> Floats:
    """Return the days of a leap year before each of ``months``, as for ``SHORT_STAMP``; NaN without a month."""
    known = np.nan_to_num(months).astype(np.int64) & 15
    return np.where(np.isnan(months), np.nan, _DAYS_BEFORE_MONTH[known] + (known > _FEBRUARY))


def past_midnight(clock_s: Floats) -> Floats:
    """Return a clock that goes on where a time of day begins anew: it falls there by most of a day.

    Times with a date, of a day or more, are returned as they are.
    """
    falls = np.diff(clock_s) < -_MOST_OF_A_DAY_S
    if not falls.any() or np.nanmax(clock_s) >= _DAY_S:
        return clock_s
    return clock_s + _DAY_S * np.concatenate(([0.0], np.cumsum(falls)))


def column_of(group: str) -> str:
    """Return the name of the column in which the value of a pattern's group is after ``derived``."""
    if group in ("steps_per_s", "steps_per_min", "steps_per_h"):
        return "step_time_s"
    if group == "average_steps_per_s":
        return "average_time_s"
    return "clock_s" if group in ("stamp", "clock_month") else _UNITS.get(group, (group, 1.0))[0]


def _sum(left: Floats, right: Floats, is_part: bool) -> Floats:
    """Return the sum of a number's parts, or the one of two alternatives that a line has."""
    return left + right if is_part else np.where(np.isnan(left), right, left)


def _searched(pattern: re.Pattern[bytes], text: bytes) -> dict[str, Floats]:
    # Thousands of tuples that cannot form cycles: the cyclic collector would traverse them repeatedly.
    collecting = gc.isenabled()
    gc.disable()
    try:
        rows = pattern.findall(text)
        if not rows:
            return {}
        columns = list(zip(*rows, strict=True)) if isinstance(rows[0], tuple) else [rows]
    finally:
        if collecting:
            gc.enable()
    names = sorted(pattern.groupindex, key=lambda name: pattern.groupindex[name])
    found: dict[str, Floats] = {}
    for name, column in zip(names, columns, strict=True):
        if name.startswith("_"):
            continue
        if name == "stamp":
            found["clock_s"] = stamps(column)
        elif name.endswith(SUFFIX):
            factors = {word: suffix_factor(name, word) for word in set(column)}
            found[name] = np.fromiter(map(factors.__getitem__, column), np.float64, len(column))
        else:
            found[name] = numbers(column)
    return found


def numbers(words: Sequence[bytes]) -> Floats:
    """Return ``words`` (at least one) as floats; NaN for a word that is not a number."""
    if words.count(words[0]) == len(words):
        return np.full(len(words), number(words[0]))
    if not all(words):
        # A group that many matches do not have: an exception for each would take most of the time.
        words = [word or b"nan" for word in words]
    try:
        return np.fromiter(map(float, words), np.float64, len(words))
    except ValueError:
        return np.fromiter(map(number, words), np.float64, len(words))


def number(word: bytes | str) -> float:
    """Return ``word`` as a float; NaN if it is not a number."""
    try:
        return float(word)
    except ValueError:
        return float("nan")


def stamps(words: Sequence[bytes]) -> Floats:
    """Return time stamps (``STAMP``, or all ``SHORT_STAMP``) as seconds since 1970, as UTC; an empty word is NaN."""
    if max(map(len, words), default=0) == SHORT_STAMP_BYTES:
        words = [ANY_YEAR + word if word else word for word in words]
    characters = np.array(words, dtype=f"S{_STAMP_BYTES}").view(np.uint8).reshape(len(words), _STAMP_BYTES)
    digits = np.ascontiguousarray(characters.T).astype(np.int64) - ord("0")

    def two(at: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        pair: np.ndarray[tuple[int], np.dtype[np.int64]] = digits[at] * 10 + digits[at + 1]
        return pair

    year, month = two(0) * 100 + two(2), two(5)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400 - 719162
    days += _DAYS_BEFORE_MONTH[month & 15] + (leap & (month > _FEBRUARY)) + two(8) - 1
    seconds: Floats = (days * 86400 + two(11) * 3600 + two(14) * 60 + two(17)).astype(np.float64)
    # Summed separately: adding to 1.7e9 seconds would lose a tenth of a microsecond each time.
    whole, places, is_digit = np.zeros(len(words), np.int64), 0, np.ones(len(words), bool)
    for digit in digits[20:]:
        # Digits after another character are not part of the number.
        is_digit &= (digit >= 0) & (digit <= 9)
        if not is_digit.any():
            break
        whole, places = whole * 10 + np.where(is_digit, digit, 0), places + 1
    # One division rounds once, so every reader of the log gets the same double.
    seconds += whole / 10.0**places
    seconds[characters[:, 0] == 0] = np.nan
    return seconds
