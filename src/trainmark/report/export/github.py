"""The job summary of GitHub Actions: a Markdown table, added to the file that ``$GITHUB_STEP_SUMMARY`` names."""

from collections.abc import Iterator
from pathlib import Path

from trainmark.files import write_atomically
from trainmark.printable import counted
from trainmark.report.export.records import CaseRecord, ExportedResults
from trainmark.report.export.wording import doubts_of, throughput_of, verdict_of
from trainmark.report.writing import escape_markdown
from trainmark.schema.comparison import Change, Side

MOST_BYTES = 1_000_000
"""GitHub shows a step's summary up to 1 MiB, and nothing of a longer one."""

_HALF = MOST_BYTES // 2


def write(source: ExportedResults, output: str) -> tuple[str, ...]:
    """Add the summary to the file ``output``; return its path."""
    path = Path(output)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    text = summary(source)
    gap = "\n" if before and not before.endswith("\n\n") else ""
    write_atomically(path, f"{before}{gap}{text}")
    return (output,)


def summary(source: ExportedResults) -> str:
    """Return the summary: one line that says what holds, the table of cases, and the doubts behind a fold."""
    results = source.results
    parts = [f"### trainmark: {escape_markdown(results.suite)}", _headline(source)]
    compared = source.comparison is not None
    head = ["case", "throughput", "bound by", *(["against the baseline"] if compared else [])]
    rows = [" | ".join(_cells(case, compared=compared)) for case in source.cases]
    table = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    parts.append("\n".join([*table, *_fitting([f"| {row} |" for row in rows], "case", _HALF)]))
    doubts = [
        f"- {escape_markdown(case.id)}: {escape_markdown(text)}"
        for case in source.cases
        for text in doubts_of(case)
    ]
    if doubts:
        lines = "\n".join(_fitting(doubts, "doubt", _HALF - 10_000))
        parts.append(f"<details><summary>{counted(len(doubts), 'doubt')}</summary>\n\n{lines}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def _headline(source: ExportedResults) -> str:
    measured = sum(bool(case.figures) for case in source.cases)
    words = [f"{measured} of {counted(len(source.cases), 'case')} measured"]
    if source.comparison is not None:
        slower = sum(case.change is Change.SLOWER for case in source.comparison.cases)
        lost = sum(case.lost for case in source.comparison.cases)
        words.append(f"{slower} slower than the baseline" if slower else "none is slower than the baseline")
        words += [f"{lost} lost their number"] if lost else []
        gone = len(source.comparison.only.get(Side.BASELINE, ()))
        words += [f"{gone} only in the baseline"] if gone else []
    if not source.results.complete:
        words.append("the suite is not finished")
    return "; ".join(words) + "."


def _cells(case: CaseRecord, *, compared: bool) -> Iterator[str]:
    yield escape_markdown(case.id)
    yield escape_markdown(throughput_of(case)) + (" †" if case.doubts and case.figures else "")
    yield escape_markdown(case.facts.get("bound_by", "-"))
    if compared:
        yield escape_markdown(verdict_of(case.compared)) if case.compared else "not in the baseline"


def _fitting(lines: list[str], what: str, most: int) -> Iterator[str]:
    """Yield the lines up to a size; the last one counts those that are left out."""
    size = 0
    for at, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > most:
            left = len(lines) - at
            rest = f"{left} more {what}{'s' if left > 1 else ''}: see the report"
            yield f"| {rest} |" if line.startswith("|") else f"- {rest}"
            return
        yield line
