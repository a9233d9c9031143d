"""Lists of CPUs as users and the kernel write them: ``0-3,8``."""

MOST_CPUS = 1 << 16
"""Numbers of CPUs are below this: a list may come from another machine's results, and a set of it must fit."""


def count_cpus(text: str) -> int | None:
    """Return the number of CPUs in a list; None for a text that is no list."""
    try:
        return len(parse_cpus(text))
    except ValueError:
        return None


def parse_cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as ``0-3,6``; raise ``ValueError`` for another text."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise ValueError(f"'{part}' is neither a number nor a range such as 0-3")
        low, high = int(first), int(last) if dash else int(first)
        if low > high:
            raise ValueError(f"'{part}' ends before it begins")
        if high >= MOST_CPUS:
            raise ValueError(f"'{part}' has a CPU beyond {MOST_CPUS - 1}")
        found |= set(range(low, high + 1))
    return frozenset(found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
