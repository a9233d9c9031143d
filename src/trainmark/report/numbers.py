"""Numbers for readers: only significant digits, and equally many decimals within a column."""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import floor, isfinite, log10

from trainmark.schema.measurement import Interval

SIGNIFICANT_DIGITS = 4
MOST_DECIMALS = 4
GIB = 2**30


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals give the smallest of the values four significant digits (0 to 4 of them)."""
    sizes = [abs(value) for value in values if isfinite(value) and value != 0]
    if not sizes:
        return 0
    return min(max(SIGNIFICANT_DIGITS - 1 - floor(log10(min(sizes))), 0), MOST_DECIMALS)


def number(value: float, places: int | None = None) -> str:
    """Return ``value`` with ``places`` decimals, by default those of a column with only this value."""
    return f"{value:.{decimals([value]) if places is None else places}f}"


def interval(bounds: Interval | None, places: int, factor: float = 1.0) -> str:
    """Return ``[low, high]``, or an empty string if there is no interval."""
    if bounds is None:
        return ""
    return f"[{bounds.low * factor:.{places}f}, {bounds.high * factor:.{places}f}]"


def percent(value: float, places: int = 1) -> str:
    """Return a fraction as a percentage."""
    return f"{value * 100:.{places}f} %"


def days(first: datetime, last: datetime) -> str:
    """Return the day, or the first and the last day, in UTC."""
    words = [
        (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y-%m-%d") for moment in (first, last)
    ]
    return " – ".join(dict.fromkeys(words))
