"""Findings on values that hosts should share, and numbers formatted for a reader."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainmark.schema.check import CheckFinding, Level

GIB = 1 << 30


def compare_values(
    check: str, values: Mapping[str, str], remedy: str, level: Level = Level.FAILURE, what: str = ""
) -> Iterator[CheckFinding]:
    """Yield one finding if all hosts have the same value, else one for each host that differs from the majority.

    On a tie, the value of the first host counts as the majority's.
    """
    if not values:
        return
    counts = Counter(values.values())
    common, most = counts.most_common(1)[0]
    prefix = f"{what} " if what else ""
    if len(counts) == 1:
        yield CheckFinding(check=check, level=Level.OK, hosts=tuple(values), found=f"{prefix}{common}")
        return
    having = [host for host, value in values.items() if value == common]
    named = having[0] if most == 1 else f"{most} hosts"
    others = f"{named}: {common}"
    for host, value in values.items():
        if value != common:
            yield CheckFinding(
                check=check,
                level=level,
                hosts=(host,),
                found=f"{prefix}{value}",
                others=others,
                remedy=remedy,
            )


def merge_findings(findings: Iterable[CheckFinding]) -> list[CheckFinding]:
    """Return the findings in order; equal findings of several hosts become one finding with all their hosts."""
    hosts: dict[CheckFinding, list[str]] = {}
    for finding in findings:
        hosts.setdefault(finding.model_copy(update={"hosts": ()}), []).extend(finding.hosts)
    return [
        finding.model_copy(update={"hosts": tuple(dict.fromkeys(names))}) for finding, names in hosts.items()
    ]


def size(count: float) -> str:
    """Return a number of bytes, formatted for a reader."""
    if count >= GIB:
        return f"{count / GIB:.1f} GiB"
    return f"{count / (1 << 20):.0f} MiB" if count >= 1 << 20 else f"{count / 1024:.0f} KiB"


def span(numbers: Sequence[float], unit: str) -> str:
    """Return the smallest and the largest number, or one number if both read the same."""
    low, high = (_figures(number) for number in (min(numbers), max(numbers)))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def rate(number: float, unit: str) -> str:
    """Return a rate in units of 10^9 per second, or of 10^12 for many operations, formatted for a reader."""
    return rates([number], unit)


def rates(numbers: Sequence[float], unit: str) -> str:
    """Return the span of some rates; see ``rate``."""
    if unit == "FLOP" and min(numbers) >= 1e12:
        return span([number / 1e12 for number in numbers], "TFLOP/s")
    return span([number / 1e9 for number in numbers], "GFLOP/s" if unit == "FLOP" else "GB/s")


def _figures(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
