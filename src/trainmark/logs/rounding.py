"""Rounding of printed figures: ``0.03it/s`` is known to 17 %, and all lines of a steady run print the same digit."""

import re
from collections.abc import Iterator

_FIGURES = (
    "rate",
    "step_time_s",
    "step_time_ms",
    "step_time_us",
    "steps_per_s",
    "average_rate",
    "average_time_s",
    "average_time_ms",
    "average_steps_per_s",
)
_COMPOSED = ("rate_thousands", "rate_millions", "step_time_m", "extra_time_s", "seconds", "bar_s")
_LAST_BYTES = 1 << 13
_MOST_VALUES = 2
"""Most different values of a steady run; of more the rounding averages out."""
_NUMBER = re.compile(rb"\d+(?:\.(\d*))?")


def rounding_of(pattern: re.Pattern[bytes], tail: bytes) -> float:
    """Return by how much rounding may change the figures of ``pattern`` in the last lines, as a share of them.

    0 if they have many values, or consist of several numbers. Of several figures in a line the finest counts.
    """
    names = [name for name in _FIGURES if name in pattern.groupindex]
    if not names:
        return 0.0
    matches = [match.groupdict() for match in pattern.finditer(tail[-_LAST_BYTES:])]
    if any(match.get(name) is not None for match in matches for name in _COMPOSED):
        return 0.0
    return min((share for name in names for share in _shares(name, matches)), default=0.0)


def _shares(name: str, matches: list[dict[str, bytes | None]]) -> Iterator[float]:
    """Yield the rounding of one figure, as a share of its smallest value."""
    words = {word for match in matches if (word := match[name])}
    numbers = [(float(word), number) for word in words if (number := _NUMBER.fullmatch(word))]
    if not numbers or len(numbers) < len(words) or min(value for value, _ in numbers) <= 0:
        return
    if len(words) > _MOST_VALUES:
        yield 0.0
        return
    places = max(len(number[1] or b"") for _, number in numbers)
    yield 0.5 * 10.0**-places / min(value for value, _ in numbers)
