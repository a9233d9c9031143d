"""Lists of CPUs as users and the kernel write them: ``0-3,8``."""


def parse_cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as ``0-3,6``; raise ``ValueError`` for another text."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"'{part}' is neither a number nor a range such as 0-3")
        low, high = int(first), int(last) if dash else int(first)
        if low > high:
            raise ValueError(f"'{part}' ends before it begins")
        found |= set(range(low, high + 1))
    return frozenset(found)
