"""Output of ``trainmark parse`` for finished logs and for one that still grows."""

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainmark.logs import Facts, ParsedLog
    from trainmark.measure.rules import Rule, RuleResult

_POLL_S = 1.0

_HEADINGS = (
    "log",
    "format",
    "devices",
    "precision",
    "batch",
    "records",
    "skipped",
    "rule",
    "throughput",
    "unit",
    "status",
)


def print_logs(
    paths: list[str], rule: "Rule | None", given: "Facts", format_name: str | None = None, *, as_json: bool
) -> int:
    """Print the throughput and problems of each log; return 1 if one is doubtful or there are no logs."""
    from trainmark.measure.rules.row import is_doubtful, reading_row

    doubtful, count = False, 0
    rows: list[dict[str, Any]] = []
    for log, result in readings(paths, rule, given, format_name):
        doubtful |= is_doubtful(log, result)
        count += 1
        row = reading_row(log, result)
        if as_json:
            sys.stdout.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        else:
            rows.append(row)
    if not as_json:
        from trainmark.cli.tables import table

        sys.stdout.write(table(_HEADINGS, [_cells(row) for row in rows]))
        for row in rows:
            sys.stdout.write(_printed_use(row))
            for problem in row["problems"]:
                sys.stdout.write(
                    f"{row['log']}: {problem['severity']} [{problem['code']}] {problem['message']}\n"
                )
    if not count:
        sys.stderr.write("trainmark parse: no log files found\n")
        return 1
    return 1 if doubtful else 0


def follow_one(path: str, rule: "Rule | None", given: "Facts", *, as_json: bool) -> int:
    """Print a line whenever the log has grown; return 1 if the final reading is doubtful."""
    import signal
    from threading import Event

    from trainmark.measure.rules import measure_log
    from trainmark.measure.rules.row import is_doubtful, reading_row
    from trainmark.measure.rules.steady_records import judge_records
    from trainmark.programs import follow_log

    stopped = Event()
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())
    doubtful = True
    try:
        for log in follow_log(path, given, lambda: not stopped.wait(_POLL_S)):
            result = measure_log(log, rule)
            steady = judge_records(log, result.skipped).steady if result.value is not None else None
            row = reading_row(log, result)
            in_progress = any(problem.code == "in-progress" for problem in log.problems)
            if as_json:
                document = {**row, "steady": steady, "in_progress": in_progress}
                sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
            else:
                sys.stdout.write(_progress_line(row, steady))
                doubts = [problem for problem in row["problems"] if problem["severity"] == "doubt"]
                sys.stdout.writelines(f"    doubt [{p['code']}] {p['message']}\n" for p in doubts)
            sys.stdout.flush()
            doubtful = is_doubtful(log, result)
    finally:
        signal.signal(signal.SIGINT, before)
    return 1 if doubtful else 0


def readings(
    paths: list[str], rule: "Rule | None", given: "Facts", format_name: str | None = None
) -> "Iterator[tuple[ParsedLog, RuleResult]]":
    """Yield each log in the paths with its throughput; print skipped files on stderr."""
    from trainmark.logs import ParsedLog, Problem, Status, find_logs
    from trainmark.measure.rules import measure_log
    from trainmark.programs import read_log, read_stream
    from trainmark.programs.given import given_format, read_by_format

    known = given_format(format_name) if format_name is not None else None
    for found in find_logs(paths):
        if found.note:
            sys.stderr.write(f"{found.path}: {found.note}\n")
            continue
        if found.error:
            log = ParsedLog(found.path, Status.UNREADABLE, problems=(Problem("unreadable", found.error),))
        elif known is not None:
            log = read_by_format(found.path, known, given)
        elif found.path == "-":
            log = read_stream(sys.stdin.buffer, "-", given)
        else:
            log = read_log(found.path, given, guess=True)
        result = measure_log(log, rule)
        yield log, result


def _progress_line(row: dict[str, Any], steady: bool | None) -> str:
    pace = {True: "steady", False: "not steady", None: "steadiness unknown"}[steady]
    value = row["throughput"]
    shown = f"{value:.6g} {row['unit']}, {pace}" if value is not None else f"no rate yet ({row['status']})"
    return f"{row['format'] or 'unknown format'}: {row['records']} records, {shown}\n"


def _printed_use(row: dict[str, Any]) -> str:
    """Return a line with the device utilisation that the program printed; empty if it printed none."""
    printed = (
        [f"{row['tflops_per_device']:.6g} TFLOP/s per device"] if row["tflops_per_device"] is not None else []
    )
    printed += [f"MFU {row['mfu']:.2%}"] if row["mfu"] is not None else []
    return f"{row['log']}: the program prints {', '.join(printed)}\n" if printed else ""


def _cells(row: dict[str, Any]) -> list[str]:
    keys = ("log", "format", "gpus", "precision", "batch_per_device", "records", "skipped", "rule")
    cells = ["-" if row[key] is None else str(row[key]) for key in keys]
    if row["batch_per_device"] is None and row["global_batch"] is not None:
        cells[keys.index("batch_per_device")] = f"global {row['global_batch']}"
    value = row["throughput"]
    return [
        *cells,
        "-" if value is None else f"{value:.6g}" if value < 1e5 else f"{value:.0f}",
        row["unit"] or "-",
        f"needs {' '.join(row['needs'])}" if row["needs"] else row["status"],
    ]
