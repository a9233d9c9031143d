"""Units that a program prints after a number (``22.8K`` tokens per second, ``35 ms`` a step), and short time stamps."""

import math

ANY_YEAR = b"2000/"
"""Year assumed for a stamp without a year: a leap year."""
SHORT_STAMP_BYTES = 14
SUFFIX = "_suffix"
"""End of a group's name: ``rate_suffix`` is the unit after the number in the group ``rate``."""

_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "g": 1e9, "G": 1e9, "B": 1e9, "T": 1e12}
_TIMES = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60.0, "min": 60.0, "h": 3600.0}


def suffix_factor(name: str, word: bytes) -> float:
    """Return the factor of the unit ``word`` in the group ``name``; NaN for an unknown unit."""
    field = name.removesuffix(SUFFIX)
    is_time = field.endswith("_s") or field == "seconds"
    return (_TIMES if is_time else _FACTORS).get(word.decode("ascii", "replace"), math.nan)
