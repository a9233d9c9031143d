"""Output of ``trainmark parse`` for finished logs and for one that still grows, and its import of NumPy."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from trainmark.printable import rate_text

if TYPE_CHECKING:
    from trainmark.logs import Facts, ParsedLog
    from trainmark.logs.format import Format
    from trainmark.logs.lines.transport import FoundPath
    from trainmark.measure.rules import Rule, RuleResult


_POLL_S = 1.0
_BATCH = 64

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
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def print_logs(
    paths: list[str],
    rule: "Rule | None",
    given: "Facts",
    format_name: str | None = None,
    jobs: int = 1,
    *,
    as_json: bool,
) -> int:
    """Print the throughput and problems of each log; return 1 if one is doubtful or there are no logs."""
    doubtful, count = False, 0
    rows: list[dict[str, Any]] = []
    for row, is_in_doubt in _rows(paths, rule, given, format_name, jobs):
        doubtful |= is_in_doubt
        count += 1
        if as_json:
            sys.stdout.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        else:
            rows.append(row)
    if rows:
        from trainmark.printable import table

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


def _rows(
    paths: list[str], rule: "Rule | None", given: "Facts", format_name: str | None, jobs: int
) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the row of each log and whether it is doubtful, in the order of the paths, by ``jobs`` processes."""
    if jobs == 1:
        yield from (_row(*reading) for reading in readings(paths, rule, given, format_name))
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from trainmark.errors import InputError
    from trainmark.logs import find_logs

    if "-" in paths:
        raise InputError("-j reads files: leave it out for standard input")
    found = find_logs(paths)
    with ProcessPoolExecutor(jobs, get_context("forkserver"), initializer=import_numpy) as pool:
        batches = iter(lambda: list(islice(found, _BATCH)), [])
        for rows in pool.map(_rows_of, batches, *map(repeat, (rule, given, format_name))):
            yield from rows


def _rows_of(
    paths: "list[FoundPath]", rule: "Rule | None", given: "Facts", format_name: str | None
) -> list[tuple[dict[str, Any], bool]]:
    """Return the rows of a batch of files, in another process."""
    return [_row(*reading) for reading in _readings_of(paths, rule, given, format_name)]


def _row(log: "ParsedLog", result: "RuleResult") -> tuple[dict[str, Any], bool]:
    from trainmark.measure.rules.row import is_doubtful, reading_row

    return reading_row(log, result), is_doubtful(log, result)


def follow_one(path: str, rule: "Rule | None", given: "Facts", *, as_json: bool) -> int:
    """Print a line whenever the log has grown; return 1 if the final reading is doubtful."""
    import signal
    from threading import Event

    from trainmark.measure.rules import measure_log
    from trainmark.measure.rules.row import is_doubtful, reading_row
    from trainmark.measure.steadiness import judge_records
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
    from trainmark.logs import find_logs

    yield from _readings_of(find_logs(paths), rule, given, format_name)


def _readings_of(
    paths: "Iterable[FoundPath]", rule: "Rule | None", given: "Facts", format_name: str | None
) -> "Iterator[tuple[ParsedLog, RuleResult]]":
    from trainmark.measure.rules import measure_log
    from trainmark.programs.reading import given_format

    known = given_format(format_name)
    for found in paths:
        if found.note:
            sys.stderr.write(f"{found.path}: {found.note}\n")
            continue
        for log in _logs_at(found, known, given):
            yield log, measure_log(log, rule)


def _logs_at(found: "FoundPath", known: "Format | None", given: "Facts") -> "Iterator[ParsedLog]":
    """Yield the log at a path; of an archive, each of its members."""
    from trainmark.logs import ParsedLog, Problem, Status
    from trainmark.logs.lines.transport import is_archive
    from trainmark.programs.reading import read_by_format, read_stream_by_format

    if found.error:
        yield ParsedLog(found.path, Status.UNREADABLE, problems=(Problem("unreadable", found.error),))
    elif found.path == "-":
        yield read_stream_by_format(sys.stdin.buffer, "-", known, given)
    elif is_archive(found.path):
        yield from _members(found.path, known, given)
    else:
        yield read_by_format(found.path, known, given)


def _members(path: str, known: "Format | None", given: "Facts") -> "Iterator[ParsedLog]":
    from trainmark.logs.lines.archives import archive_members
    from trainmark.logs.lines.transport import DamagedError
    from trainmark.logs.read import unreadable_log
    from trainmark.programs.reading import read_stream_by_format

    try:
        for name, member in archive_members(path):
            yield (
                unreadable_log(name, member)
                if isinstance(member, str)
                else read_stream_by_format(member, name, known, given)
            )
    except DamagedError as error:
        yield unreadable_log(path, str(error))
    except OSError as error:
        yield unreadable_log(path, f"cannot be read: {error.strerror or error}")


def _progress_line(row: dict[str, Any], steady: bool | None) -> str:
    pace = {True: "steady", False: "not steady", None: "steadiness unknown"}[steady]
    value = row["throughput"]
    shown = (
        f"{rate_text(value)} {row['unit']}, {pace}" if value is not None else f"no rate yet ({row['status']})"
    )
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
        "-" if value is None else rate_text(value),
        row["unit"] or "-",
        f"needs {' '.join(row['needs'])}" if row["needs"] else row["status"],
    ]


def import_numpy() -> None:
    """Import NumPy with one thread for linear algebra; the environment stays as it was, for child processes.

    OpenBLAS reads the number of threads when it is loaded, and starts them at once.
    """
    added = [name for name in _ONE_THREAD if name not in os.environ]
    os.environ.update({name: _ONE_THREAD[name] for name in added})
    try:
        import numpy  # noqa: F401
    finally:
        for name in added:
            del os.environ[name]
