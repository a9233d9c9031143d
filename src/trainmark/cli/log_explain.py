"""``trainmark parse --explain``: show how a log was read: lines, facts, and the throughput by every method."""

import sys
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.printable import rate_text
from trainmark.schema.names import ARRIVALS

if TYPE_CHECKING:
    from trainmark.logs import Facts, ParsedLog
    from trainmark.logs.format import Format
    from trainmark.measure.rules import Rule, RuleResult

_SHOWN = 3
_WIDTH = 160


def explain_logs(paths: list[str], rule: "Rule | None", given: "Facts", format_name: str | None) -> int:
    """Print how each log was read; return 1 if a number is missing or in doubt."""
    from trainmark.errors import InputError
    from trainmark.measure.rules import measure_log
    from trainmark.measure.rules.row import is_doubtful
    from trainmark.programs import format_of
    from trainmark.programs.reading import given_format, read_by_format

    known = given_format(format_name)
    if "-" in paths:
        raise InputError("--explain reads a log twice: give a file, not standard input")
    doubtful = False
    for path in paths:
        if not Path(path).is_file():
            raise InputError(f"{path}: --explain needs a file")
        log = read_by_format(path, known, given)
        result = measure_log(log, rule)
        doubtful |= is_doubtful(log, result)
        shown = known or format_of(log.format)
        sys.stdout.writelines(f"{line}\n" for line in explain_lines(path, log, result, shown))
    return 1 if doubtful else 0


def _arrivals_hint(path: str) -> str:
    """Return where the arrival of the log's lines is known from, or how it becomes known."""
    if Path(path).with_name(ARRIVALS).is_file():
        return f"{ARRIVALS} next to the log has one, which `trainmark run` and `report` read, but `parse` does not"
    return (
        "they may leave out loading, or be CPU time; `trainmark run -- COMMAND` notes when each line arrives"
    )


def explain_lines(
    path: str, log: "ParsedLog", result: "RuleResult", known: "Format | None", *, by_arrival: bool = False
) -> Iterator[str]:
    """Yield how a log was read: its lines, facts, witnesses, number and problems.

    The problems of a log without times are not those of a run that has a number ``by_arrival`` of its lines.
    """
    from trainmark.logs.guess.reading import NAME, proposal, propose
    from trainmark.measure.rules.row import reading_problems
    from trainmark.measure.rules.window import has_averages

    yield f"{path}: {log.format or 'unknown format'}, {result.status}"
    guess = propose(Path(path)) if log.format == NAME else None
    if known is not None:
        yield from _lines(path, known)
    elif guess is not None:
        yield f"  {guess.lines} lines repeat with an increasing counter"
    for fact in fields(log.facts):
        value = getattr(log.facts, fact.name)
        if value is not None:
            yield f"  {fact.name}: {value}"
    if log.records.count:
        yield f"  records: {log.records.count}, of which {result.skipped} are skipped as warm-up"
    for witness in result.witnesses:
        yield f"  by the {witness.name}: {rate_text(witness.value)} {log.unit} ({witness.how})"
    if result.value is not None:
        yield f"  throughput: {rate_text(result.value)} {log.unit} by the rule {result.rule}"
        if (
            log.records.count
            and log.records.clock_s is None
            and log.own_run is None
            and not has_averages(log)
        ):
            yield f"  no clock confirms the printed figures: {_arrivals_hint(path)}"
    if by_arrival:
        yield "  the lines alone give no number: the run is timed by their arrival"
        return
    for problem in reading_problems(log, result):
        yield f"  {problem.severity} [{problem.code}] {problem.message}"
    if result.needs:
        yield f"  add {' '.join(result.needs)} for a number"
    if guess is not None:
        yield "  proposed format: save it as NAME.yaml, correct it, and read the log with --format NAME.yaml"
        yield proposal(guess).rstrip()


def _lines(path: str, known: "Format") -> Iterator[str]:
    """Yield how many of the first lines each pattern matches, and the first lines that none matches."""
    from trainmark.logs.description.near_miss import find_near_miss
    from trainmark.logs.guess.reading import read_head

    lines = [line + b"\n" for line in read_head(Path(path)).split(b"\n") if line.strip()]
    matched: set[int] = set()
    for number, pattern in enumerate(known.records, start=1):
        hits = {at for at, line in enumerate(lines) if pattern.search(line)}
        matched |= hits
        yield f"  records, pattern {number}: matches {len(hits)} of the first {len(lines)} lines"
        miss = find_near_miss(pattern, [line for at, line in enumerate(lines) if at not in hits])
        if miss and (not hits or miss.is_of_blanks):
            if miss.line:
                yield f"  the {'other ' if hits else ''}line that it matches furthest:"
                yield f"    {_shown(miss.line)}"
            yield f"    {miss}"
        for at in sorted(hits)[:1]:
            match = pattern.search(lines[at])
            assert match is not None
            named = ((name, word) for name, word in match.groupdict().items() if word is not None)
            yield f"    {_shown(lines[at])}"
            yield "    " + ", ".join(f"{name} = {word.decode('utf-8', 'replace')}" for name, word in named)
    if not known.records:
        # A format that reads its records by itself shows at least the lines by which it is recognised.
        hits = {at for at, line in enumerate(lines) if known.mark.search(b"\n" + line)}
        yield f"  mark: matches {len(hits)} of the first {len(lines)} lines"
        yield from (f"    {_shown(lines[at])}" for at in sorted(hits)[:2])
    if known.records:
        yield "  lines that no pattern matches:"
        others = (line for at, line in enumerate(lines) if at not in matched)
        yield from (f"    {_shown(line)}" for line in islice(others, _SHOWN))


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\n")[:_WIDTH]
