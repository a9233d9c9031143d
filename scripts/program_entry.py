#!/usr/bin/env python3
"""Write a result of ``trainmark run`` into the stored results of programs, and stamp its logs by a separate clock.

    python scripts/program_entry.py clock DIR &            # before the run: stamps each log's growth, until it is ended
    trainmark run suites/external-NAME.yaml --out DIR
    python scripts/program_entry.py add DIR --program "OWNER/NAME COMMIT SCRIPT" --machine "2 cores, other load"

``add`` prints the entries, one for each case, and with ``--into FILE`` it replaces those of the same program, command
and machine in that file. ``scripts/programs_page.py`` then renews the page. The clock is a process of its own, with
files of its own in ``DIR.clock``: nothing of it comes from the run's own arrival times.
"""

import argparse
import json
import math
import re
import shlex
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from trainmark.campaign.log_measurement import RunLog, read_run_log
from trainmark.campaign.suspicion import missing_facts
from trainmark.logs.model import Meaning, Record
from trainmark.logs.records import pieces, read_arrivals, record_times
from trainmark.programs.reading import read_stream_by_format
from trainmark.schema.case import Case
from trainmark.schema.names import COMMAND_SUITE, LOG, RESULTS, SUITE
from trainmark.suite import load_suite
from trainmark.workload import Card, recorded_workloads, work_of_step

INTERVAL_S = 0.005
"""Seconds between two looks of the separate clock at the logs' sizes."""


def clock_folder(result: Path) -> Path:
    """Return the folder of the separate clock's files for a result directory."""
    return result.with_name(f"{result.name}.clock")


def clock(result: Path, until: float = math.inf) -> None:
    """Append ``UNIX_TIME SIZE`` for each growth of each run's log, until Unix time ``until``."""
    sizes: dict[Path, int] = {}
    while time.time() < until:
        for log in result.glob(f"runs/*/*/{LOG}"):
            size, now = log.stat().st_size, time.time()
            if size == sizes.get(log):
                continue
            stamps = clock_folder(result) / log.parent.relative_to(result)
            stamps.parent.mkdir(parents=True, exist_ok=True)
            with stamps.open("a", encoding="ascii") as file:
                if log not in sizes:
                    file.write(f"{now:.4f} 0\n")
                file.write(f"{now:.4f} {size}\n")
            sizes[log] = size
        time.sleep(INTERVAL_S)


def steps_between(records: Sequence[Record], steps_per_record: int | None) -> float | None:
    """Return the steps from the first record to the last one; None if the records have no counter and none is given.

    A counter may begin anew in each epoch.
    """
    if steps_per_record is not None:
        return float(steps_per_record * (len(records) - 1))
    counters = [record.step for record in records if record.step is not None]
    if len(counters) != len(records):
        return None
    return float(sum(now - before if now > before else now for before, now in pairwise(counters)))


def units_of_step(log: RunLog, case: Case, card: Card, unit: str) -> float | None:
    """Return the units of one step of all devices; 1 where the unit is the step itself."""
    if unit == "steps/s":
        return 1.0
    facts = log.parsed.facts
    stated = work_of_step(case, card)
    if facts.global_batch is not None or stated is not None:
        return facts.global_batch or stated
    if facts.batch_per_device is None:
        return None
    return float(facts.batch_per_device * (facts.gpus or case.devices_per_node) * (facts.accumulation or 1))


def witnesses(
    result: Path, run: Mapping[str, Any], case: Case, card: Card, steps_per_record: int | None
) -> dict[str, float]:
    """Return the number of a run by its own printed rates or times, and by the separate clock, where they exist."""
    measured, folder = run["measurement"], result / run["directory"]
    log = read_run_log(card, folder, run["commands"])
    log = log.with_facts(missing_facts(log.parsed.facts, case))
    records = list(log.parsed.records.rows())
    first, units = measured["warmup_steps"], units_of_step(log, case, card, measured["unit"])
    used = records[first : first + measured["measured_steps"]]
    found = {}
    # Of several steps, one that is printed is no witness of the others.
    is_sampled = log.parsed.meaning is Meaning.SAMPLED and log.parsed.step_interval > 1
    printed = None if is_sampled else printed_rate(used, units)
    if printed is not None:
        found["printed_by_the_program"] = printed
    stamps = clock_folder(result) / folder.relative_to(result)
    if not _saw_the_end(stamps, folder / LOG) or log.known is None or units is None:
        return found
    arrived = pieces(folder / LOG, read_arrivals(stamps))
    if not measured["measured_steps"] and (of_run := whole_run(arrived)) is not None:
        rate = of_run[0] * units / of_run[1]
        return {"printed_by_the_program": measured["throughput"], "by_separate_clock": rate}
    if first < 1 or not used:
        return found
    window = first - 1, first + len(used) - 1
    if log.with_result is not None and (timed := bar_seconds(arrived, records, window)) is not None:
        found["printed_by_the_program"] = len(used) * units / timed
    times = stamped_times(log, records, arrived, window)
    steps = steps_between(records[first - 1 : first + len(used)], steps_per_record)
    if times is not None and steps is not None:
        found["by_separate_clock"] = steps * units / (times[1] - times[0])
    return found


def _saw_the_end(stamps: Path, log: Path) -> bool:
    """Return whether the separate clock ran until a log was complete."""
    if not stamps.exists():
        return False
    return int(stamps.read_text(encoding="ascii").split()[-1]) == log.stat().st_size


def bar_seconds(
    arrived: Sequence[tuple[float, bytes]], records: Sequence[Record], wanted: tuple[int, int]
) -> int | None:
    """Return the whole seconds between two steps by the time that a Trainer's bar shows; None without such bars."""
    text, seconds = b"".join(piece for _, piece in arrived), []
    for record in (records[at] for at in wanted):
        bar = re.search(rb"\| %d/\d+ \[(?:(\d+):)?(\d\d):(\d\d)<" % int(record.step or 0), text)
        if bar is None:
            return None
        hours, minutes, rest = (int(part or 0) for part in bar.groups())
        seconds.append(3600 * hours + 60 * minutes + rest)
    return seconds[1] - seconds[0]


def whole_run(arrived: Sequence[tuple[float, bytes]]) -> tuple[int, float] | None:
    """Return the steps of a Trainer's run and its seconds, from its first bar to its summary, by the separate clock.

    None if the log has no such bar of the printed number of steps, or no summary.
    """
    text, ends = b"".join(piece for _, piece in arrived), list(accumulate(len(piece) for _, piece in arrived))
    planned = re.search(rb"Total optimization steps = ([\d,]+)", text)
    if planned is None:
        return None
    steps = int(planned[1].replace(b",", b""))
    first = re.compile(rb"\| 0/%d \[" % steps).search(text, planned.end())
    last = re.compile(rb"'train_runtime'").search(text, planned.end())
    if first is None or last is None:
        return None
    start, end = (arrived[bisect_left(ends, found.end())][0] for found in (first, last))
    return steps, end - start


def stamped_times(
    log: RunLog, records: Sequence[Record], arrived: Sequence[tuple[float, bytes]], wanted: tuple[int, int]
) -> tuple[float, float] | None:
    """Return when the two wanted records of a log were complete, by the separate clock; None if that is unknown.

    Where a record is made of several lines, such as a bar that is drawn again, it is complete with the first beginning
    of the log that has it as the whole log has.
    """
    if log.known is None:
        return None
    times = record_times(list(arrived), log.parsed, log.known)
    if times is not None:
        return float(times[wanted[0]]), float(times[wanted[1]])
    ends = list(accumulate((piece for _, piece in arrived), initial=b""))[1:]

    def is_complete(end: bytes, at: int) -> bool:
        assert log.known is not None
        found = list(read_stream_by_format(BytesIO(end), LOG, log.known, None).records.rows())
        return len(found) > at and found[at] == records[at]

    found = [bisect_left(ends, True, key=partial(is_complete, at=at)) for at in wanted]
    if max(found) == len(ends):
        return None
    return arrived[found[0]][0], arrived[found[1]][0]


def printed_rate(records: Sequence[Record], units: float | None) -> float | None:
    """Return the units of a step over the mean of the printed step times, or the harmonic mean of the printed rates.

    A rate is made of the time, and may have fewer digits.
    """
    times = [record.step_time_s for record in records if record.step_time_s]
    if units is not None and times and len(times) == len(records):
        return units * len(times) / sum(times)
    rates = [record.rate for record in records if record.rate]
    return len(rates) / sum(1 / rate for rate in rates) if rates and len(rates) == len(records) else None


def shown_command(words: str, result: Path) -> str:
    """Return a run's command from its Python on, without variables and without paths of this machine."""
    split = shlex.split(words)
    start = next((at for at, word in enumerate(split) if Path(word).name.startswith("python")), 0)
    shown = ["python", *split[start + 1 :]] if start else split
    return shlex.join(shown).replace(str(result.resolve()), "OUT").replace(str(Path.home()), "HOME")


def run_entry(
    result: Path, run: Mapping[str, Any], case: Case, card: Card, steps_per_record: int | None
) -> dict[str, Any]:
    """Return what is stored of one run: its outcome where it has no number."""
    measured = run["measurement"]
    if measured is None:
        return {"outcome": run["outcome"], "reason": run["reason"]}
    return {
        **{key: measured[key] for key in ("throughput", "unit", "window_s")},
        "measured_records": measured["measured_steps"],
        "warmup": measured["warmup_steps"],
        "witnessed": measured["witnessed"],
        "doubts": list(dict.fromkeys(one["code"] for one in run["suspicions"])),
        **witnesses(result, run, case, card, steps_per_record),
    }


def entries(
    result: Path, program: str, machine: str, steps_per_record: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the entry of each case of a result directory that has a number."""
    results = json.loads((result / RESULTS).read_text(encoding="utf-8"))
    by_command = (result / COMMAND_SUITE).exists()
    cards = load_suite(result / SUITE).cards
    workloads = recorded_workloads(Path(card) for card in cards)
    for of_case in results["cases"]:
        if of_case["estimate"] is None:
            sys.stderr.write(f"{of_case['id']}: no number ({of_case['outcome']}: {of_case['reason']})\n")
            continue
        case = Case.model_validate(of_case["case"])
        card, runs = workloads.find(case).card, of_case["runs"]
        facts = results["manifests"][runs[0]["manifest"]]["nodes"][0]["framework"]
        yield {
            "program": program,
            "command": shown_command(runs[0]["commands"][0], result),
            "date": runs[0]["started_at"][:10],
            "machine": machine,
            "framework": case.framework,
            "versions": {case.framework: facts["version"]} if facts is not None else {},
            "estimate": of_case["estimate"],
            "runs": [run_entry(result, run, case, card, steps_per_record) for run in runs],
            **({} if by_command else {"card": card.name}),
        }


def replaced(stored: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the stored entries with the new ones, which replace those of the same program, command and machine."""

    def key(entry: Mapping[str, Any]) -> tuple[str, ...]:
        return entry["program"], entry["command"], entry["machine"]

    taken = {key(entry) for entry in new}
    return [*(entry for entry in stored if key(entry) not in taken), *new]


def main() -> int:
    """Run the verb; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_clock = verbs.add_parser("clock", help="stamp the logs of a result directory, until interrupted")
    of_clock.add_argument("result", type=Path)
    of_add = verbs.add_parser("add", help="print or store the entries of a result directory")
    of_add.add_argument("result", type=Path)
    of_add.add_argument("--program", required=True)
    of_add.add_argument("--machine", required=True)
    of_add.add_argument("--into", type=Path)
    of_add.add_argument(
        "--steps-per-record", type=int, help="for the separate clock, if the log counts no steps"
    )
    given = parser.parse_args()
    if given.verb == "clock":
        clock(given.result)
    new = list(entries(given.result, given.program, given.machine, given.steps_per_record))
    if given.into is None:
        sys.stdout.write(json.dumps(new, indent=1, ensure_ascii=False) + "\n")
    else:
        stored = json.loads(given.into.read_text(encoding="utf-8")) if given.into.exists() else []
        text = json.dumps(replaced(stored, new), indent=1, ensure_ascii=False) + "\n"
        given.into.write_text(text, encoding="utf-8")
    return int(not new)


if __name__ == "__main__":
    sys.exit(main())
