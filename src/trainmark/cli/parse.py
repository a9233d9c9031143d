"""``trainmark parse``: read logs of any known format, each into one trustworthy number or a clear outcome."""

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trainmark.logs import Facts
    from trainmark.measure.rules import PlacementRow, Rule, RuleResult
    from trainmark.report.exchange import SpeedRow

app = typer.Typer(name="parse", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


_POLL_S = 1.0


class Exchange(StrEnum):
    """The formats of others that logs can be turned into."""

    PADDLE_JSON = "paddle-json"
    DLPERF_JSON = "dlperf-json"


@app.command()
def parse(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Logs, folders of logs, or - for standard input."),
    ] = None,
    rule: Annotated[str | None, typer.Option(help="How to make a number of a log (--list-rules).")] = None,
    skip: Annotated[
        int | None,
        typer.Option(min=0, help="Records to leave out at the start, for window, mean, trimmed, …"),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="Devices over all nodes, where the log is silent.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes, where the log is silent.")] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Batch per device, where the log is silent.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="fp32, tf32, amp-fp16, amp-bf16, fp16 or bf16, where the log is silent."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model's name, where the log is silent; in --to always.")
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Read a tree of logs: a DLPerf directory (<n>n<g>g/r50_b128_fp32_1.log), or --layout.",
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="How the tree names its logs: {nodes}n{gpus}g/{model}_b{batch}_{precision}_{repeat}.log; also "
            "{devices}, {variant}, {any}.",
        ),
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Watch the log of a run in progress, until its end or Ctrl-C: the rate so far.",
        ),
    ] = None,
    to: Annotated[
        Exchange | None,
        typer.Option("--to", help="Print database rows or DLPerf's result (docs/exchange.md)."),
    ] = None,
    mission: Annotated[
        str | None, typer.Option(help="The database's mission, where the model's name does not tell it.")
    ] = None,
    list_rules: Annotated[
        bool, typer.Option("--list-rules", help="Print the rules and who publishes by them.")
    ] = False,
    list_formats: Annotated[
        bool, typer.Option("--list-formats", help="Print the formats that are known.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a log, a line each.")
    ] = False,
) -> None:
    """Read training logs: format, devices, precision, batch, throughput, and what is wrong with them.

    Exit code 1: some log gave no number, or one that a problem makes doubtful.
    """
    from trainmark.errors import InputError

    if list_rules or list_formats:
        sys.stdout.write(_rules(as_json=as_json) if list_rules else _formats(as_json=as_json))
        return
    if to is not None and as_json:
        raise InputError(f"--to {to} is JSON already: drop --json")
    if to is not Exchange.PADDLE_JSON and mission is not None:
        raise InputError("--mission is for --to paddle-json")
    chosen = _rule(rule, skip)
    if layout is not None and tree is None:
        raise InputError("--layout says how --tree DIR names its logs: give that too")
    if follow is not None:
        if paths or tree is not None or to is not None:
            raise InputError("--follow watches one log alone: no paths, --tree or --to beside it")
        given = _given(gpus, nodes, batch, precision, model)
        raise typer.Exit(_follow(follow, chosen, given, as_json=as_json))
    if tree is not None:
        if paths:
            raise InputError("give either --tree DIR or paths, not both")
        _refuse_facts_of_logs(gpus, nodes, batch, precision, model if to is None else None)
        if to is not None:
            raise typer.Exit(_exchange_tree(tree, chosen, layout, to, model, mission))
        raise typer.Exit(_print_tree(tree, chosen, layout, as_json=as_json))
    if not paths:
        raise InputError("no log is named: give files, folders, or - for standard input (--help)")
    given = _given(gpus, nodes, batch, precision, model)
    if to is not None:
        raise typer.Exit(_exchange_logs(paths, chosen, given, to, mission))
    raise typer.Exit(_print_logs(paths, chosen, given, as_json=as_json))


def _print_logs(paths: list[str], rule: "Rule | None", given: "Facts", *, as_json: bool) -> int:
    from trainmark.measure.rules.row import is_doubtful, reading_row

    doubtful, count = False, 0
    readings: list[dict[str, Any]] = []
    for log, result in _readings(paths, rule, given):
        doubtful |= is_doubtful(log, result)
        count += 1
        row = reading_row(log, result)
        if as_json:
            sys.stdout.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        else:
            readings.append(row)
    if not as_json:
        from trainmark.cli.tables import table

        sys.stdout.write(table(_HEADINGS, [_cells(row) for row in readings]))
        for row in readings:
            sys.stdout.write(_printed_use(row))
            for problem in row["problems"]:
                sys.stdout.write(
                    f"{row['log']}: {problem['severity']} [{problem['code']}] {problem['message']}\n"
                )
    if not count:
        sys.stderr.write("trainmark parse: no file found\n")
        return 1
    return 1 if doubtful else 0


def _follow(path: str, rule: "Rule | None", given: "Facts", *, as_json: bool) -> int:
    """Print a line whenever the log has grown, and the whole reading at its end."""
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


def _progress_line(row: dict[str, Any], steady: bool | None) -> str:
    pace = {True: "steady", False: "not steady", None: "cannot say whether steady"}[steady]
    value = row["throughput"]
    shown = f"{value:.6g} {row['unit']}, {pace}" if value is not None else f"no rate yet ({row['status']})"
    return f"{row['format'] or 'unknown format'}: {row['records']} records, {shown}\n"


def _readings(paths: list[str], rule: "Rule | None", given: "Facts") -> "Any":
    from trainmark.logs import ParsedLog, Problem, Status, find_logs
    from trainmark.measure.rules import measure_log
    from trainmark.programs import read_log, read_stream

    for found in find_logs(paths):
        log: ParsedLog
        if found.note:
            sys.stderr.write(f"{found.path}: {found.note}\n")
            continue
        if found.error:
            log = ParsedLog(found.path, Status.UNREADABLE, problems=(Problem("unreadable", found.error),))
        elif found.path == "-":
            log = read_stream(sys.stdin.buffer, "-", given)
        else:
            log = read_log(found.path, given)
        result: RuleResult = measure_log(log, rule)
        yield log, result


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


def _printed_use(row: dict[str, Any]) -> str:
    """Return what the program itself says of its device's use, as a line; nothing where it says nothing."""
    said = (
        [f"{row['tflops_per_device']:.6g} TFLOP/s a device"] if row["tflops_per_device"] is not None else []
    )
    said += [f"MFU {row['mfu']:.2%}"] if row["mfu"] is not None else []
    return f"{row['log']}: the program prints {', '.join(said)}\n" if said else ""


def _cells(row: dict[str, Any]) -> list[str]:
    keys = ("log", "format", "gpus", "precision", "batch_per_device", "records", "skipped", "rule")
    words = ["-" if row[key] is None else str(row[key]) for key in keys]
    if row["batch_per_device"] is None and row["global_batch"] is not None:
        words[keys.index("batch_per_device")] = f"global {row['global_batch']}"
    value = row["throughput"]
    return [
        *words,
        "-" if value is None else f"{value:.6g}" if value < 1e5 else f"{value:.0f}",
        row["unit"] or "-",
        f"needs {' '.join(row['needs'])}" if row["needs"] else row["status"],
    ]


def _exchange_logs(
    paths: list[str], rule: "Rule | None", given: "Facts", to: Exchange, mission: str | None
) -> int:
    from trainmark.errors import InputError
    from trainmark.measure.rules.row import is_doubtful
    from trainmark.report.exchange import numbered, row_from_log

    doubtful, rows = False, []
    for log, result in _readings(paths, rule, given):
        doubtful |= is_doubtful(log, result)
        try:
            rows.append(row_from_log(log, result))
        except InputError as silent:
            doubtful = True
            sys.stderr.write(f"left out: {silent}\n")
    whole = _write_exchange(numbered(rows), to, given.model, mission)
    return 1 if doubtful or not rows or not whole else 0


def _exchange_tree(
    folder: str, rule: "Rule | None", layout: str | None, to: Exchange, model: str | None, mission: str | None
) -> int:
    from trainmark.report.exchange import rows_from_tree

    placements = _tree_rows(folder, rule, layout)
    whole = _write_exchange(rows_from_tree(placements), to, model, mission)
    return 1 if _is_doubtful_tree(placements) or not whole else 0


def _write_exchange(rows: "list[SpeedRow]", to: Exchange, model: str | None, mission: str | None) -> bool:
    """Print ``rows``; return whether all of them have a place in the format, and are compared where it compares."""
    from dataclasses import replace

    from trainmark.files import to_json
    from trainmark.report.exchange import dlperf_json, list_rows, without_speedup

    named = [replace(row, model=model) for row in rows] if model else rows
    if to is Exchange.DLPERF_JSON:
        sys.stdout.write(to_json(dlperf_json(named)))
        unlike = without_speedup(named)
        sys.stderr.write("".join(f"{sentence}\n" for sentence in unlike))
        return not unlike
    listing = list_rows(named, mission, "name the logs of one of them")
    sys.stderr.write("".join(f"left out: {sentence}\n" for sentence in listing.left_out))
    sys.stdout.write(to_json(listing.rows))
    return not listing.left_out


def _tree_rows(folder: str, rule: "Rule | None", layout: str | None) -> "list[PlacementRow]":
    from pathlib import Path

    from trainmark.measure.rules import read_naming, read_tree

    return read_tree(Path(folder), rule, read_naming(layout) if layout is not None else None)


def _print_tree(folder: str, rule: "Rule | None", layout: str | None, *, as_json: bool) -> int:
    rows = _tree_rows(folder, rule, layout)
    if as_json:
        for row in rows:
            sys.stdout.write(json.dumps(_tree_document(row), ensure_ascii=False, allow_nan=False) + "\n")
    else:
        from trainmark.cli.tables import table

        headings = (
            "model",
            "batch",
            "variant",
            "placement",
            "devices",
            "repeats",
            "mean",
            "median",
            "speedup",
            "without speed",
        )
        sys.stdout.write(table(headings, [_tree_cells(row) for row in rows]))
        for row in rows:
            for problem in row.problems:
                sys.stdout.write(f"{problem.severity} [{problem.code}] {problem.message}\n")
    return 1 if _is_doubtful_tree(rows) else 0


def _is_doubtful_tree(rows: "list[PlacementRow]") -> bool:
    from trainmark.logs import Severity

    return any(problem.severity is Severity.DOUBT for row in rows for problem in row.problems)


def _tree_document(row: "PlacementRow") -> dict[str, Any]:
    summary = row.summary
    return {
        "model": row.group.model,
        "batch_size_per_device": row.group.batch_per_device,
        "variant": row.group.variant,
        "placement": row.placement,
        "nodes": row.nodes,
        "gpus": row.gpus,
        "speeds": {str(repeat): speed for repeat, speed in row.speeds},
        "outcomes": {str(repeat): status for repeat, status in row.outcomes},
        "average_speed": summary.average_speed if summary else None,
        "median_speed": summary.median_speed if summary else None,
        "speedup": summary.speedup if summary else None,
        "problems": [{"code": p.code, "message": p.message, "severity": p.severity} for p in row.problems],
    }


def _tree_cells(row: "PlacementRow") -> list[str]:
    summary = row.summary
    return [
        row.group.model,
        str(row.group.batch_per_device),
        row.group.variant or "-",
        row.placement,
        str(row.gpus),
        str(len(row.speeds)),
        f"{summary.average_speed:.2f}" if summary else "-",
        f"{summary.median_speed:.2f}" if summary else "-",
        f"{summary.speedup:.2f}" if summary and summary.speedup is not None else "-",
        ", ".join(f"{repeat}: {status}" for repeat, status in row.outcomes) or "-",
    ]


def _refuse_facts_of_logs(
    gpus: int | None, nodes: int | None, batch: int | None, precision: str | None, model: str | None
) -> None:
    from trainmark.errors import InputError

    flags = {"--gpus": gpus, "--nodes": nodes, "--batch": batch, "--precision": precision, "--model": model}
    given = [flag for flag, value in flags.items() if value is not None]
    if given:
        raise InputError(f"--tree takes no {' or '.join(given)}: the names in its directory say these")


def _rule(name: str | None, skip: int | None) -> "Rule | None":
    from trainmark.measure.rules import find_rule

    if name is None and skip is None:
        return None
    return find_rule(name or "window", skip)


def _given(
    gpus: int | None, nodes: int | None, batch: int | None, precision: str | None, model: str | None
) -> "Facts":
    from trainmark.errors import InputError, nearest
    from trainmark.logs import Facts
    from trainmark.words.case import Precision

    if precision is not None and precision not in set(Precision):
        known = ", ".join(Precision)
        raise InputError(f"no precision '{precision}'{nearest(precision, list(Precision))} (known: {known})")
    return Facts(
        model=model,
        precision=Precision(precision) if precision else None,
        nodes=nodes,
        gpus=gpus,
        batch_per_device=batch,
    )


def _rules(*, as_json: bool) -> str:
    from trainmark.measure.rules import catalogue

    if as_json:
        return "".join(
            json.dumps(
                {
                    "rule": rule.name,
                    "formula": rule.formula,
                    "published_by": rule.published_by,
                    "formats": sorted(rule.formats),
                },
                ensure_ascii=False,
            )
            + "\n"
            for rule in catalogue()
        )
    lines = []
    for rule in catalogue():
        lines += [rule.name, f"    {rule.formula}", f"    published by: {rule.published_by}"]
        lines += [f"    for: {', '.join(sorted(rule.formats)) or 'every format'}"]
    lines += [
        "With a number of your own: mean, median, harmonic, trimmed, window and --skip N; mean-last-N.",
        "",
    ]
    return "\n".join(lines)


def _formats(*, as_json: bool) -> str:
    from trainmark.programs import formats

    if as_json:
        return "".join(
            json.dumps(
                {
                    "format": f.name,
                    "framework": f.framework,
                    "unit": f.unit,
                    "rate_of": f.scope,
                    "rate_is": f.meaning,
                }
            )
            + "\n"
            for f in formats()
        )
    from trainmark.cli.tables import table

    headings = ("format", "framework", "unit", "printed rate is of", "and averages over")
    return table(headings, [[f.name, f.framework or "-", f.unit, f.scope, f.meaning] for f in formats()])
