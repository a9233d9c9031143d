"""``trainmark compare LOG LOG``: which of two training logs shows the faster run."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.insight.log_comparison import LogComparison, LogSide
    from trainmark.logs import Facts

_MOST_DIFFERENCES = 20
_SQLITE = b"SQLite format 3\0"
_SENTENCES = {
    "faster": "B is faster",
    "slower": "B is slower",
    "indistinguishable": "B is indistinguishable from A",
    "unknown": "cannot be judged: an interval needs at least 16 records per log, each of a single logging interval",
}


def is_log(source: str) -> bool:
    """Return whether a source of ``trainmark compare`` is a log: a file that is neither results nor a database."""
    path = Path(source)
    if not path.is_file() or path.suffix == ".json":
        return False
    with path.open("rb") as file:
        return not file.read(len(_SQLITE)).startswith(_SQLITE)


def compare_two_logs(
    sources: tuple[str, str],
    given: "Facts",
    skip: int | None,
    within: float,
    format_name: str | None = None,
    *,
    as_json: bool,
) -> int:
    """Print the comparison of two logs; return 1 if the second is slower, or the difference is not known."""
    from trainmark.insight.log_comparison import compare_logs
    from trainmark.measure.rules import find_rule, measure_log
    from trainmark.measure.rules.row import reading_problems
    from trainmark.programs.reading import given_format, read_by_format

    known = given_format(format_name)
    rule = find_rule("window", skip) if skip is not None else None
    logs = [read_by_format(source, known, given) for source in sources]
    read = [(log, measure_log(log, rule)) for log in logs]
    found = compare_logs(read[0], read[1], within)
    if as_json:
        sys.stdout.write(json.dumps(asdict(found), ensure_ascii=False, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(found))
        for log, result in read:
            for problem in reading_problems(log, result):
                if problem.severity == "doubt":
                    sys.stdout.write(f"{log.log}: doubt [{problem.code}] {problem.message}\n")
    return 1 if found.change in ("slower", "unknown") else 0


def _lines(found: "LogComparison") -> list[str]:
    from trainmark.printable import table

    rows = [_cells("A", found.baseline), _cells("B", found.candidate)]
    lines = table(["", "log", "format", "records", "throughput", "95 % interval", "unit"], rows).splitlines()
    span = f" [{found.interval[0]:.4g}, {found.interval[1]:.4g}]" if found.interval else ""
    lines.append(f"B/A = {found.ratio:.4g}{span}: {_SENTENCES[found.change]}")
    if not found.differences:
        return [*lines, "The logs show no other difference."]
    lines.append("What else differs:")
    for name, (before, after) in list(found.differences.items())[:_MOST_DIFFERENCES]:
        lines.append(f"  {name}: {before or 'not printed'} in A, {after or 'not printed'} in B")
    if len(found.differences) > _MOST_DIFFERENCES:
        lines.append(f"  and {len(found.differences) - _MOST_DIFFERENCES} more (--json has all)")
    return lines


def _cells(label: str, side: "LogSide") -> list[str]:
    interval = f"{side.interval[0]:.6g} to {side.interval[1]:.6g}" if side.interval else "-"
    return [
        label,
        side.log,
        side.format or "-",
        str(side.records),
        f"{side.throughput:.6g}",
        interval,
        side.unit or "-",
    ]
