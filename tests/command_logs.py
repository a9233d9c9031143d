"""Measurements of logs as commands leave them, from lines and the moments of their arrival: no program is started."""

from collections.abc import Iterable
from pathlib import Path

from trainmark.campaign.log_measurement import LoggedRun, measure_run
from trainmark.cli.run_options import CommandOptions
from trainmark.cli.suite_input import command_suite
from trainmark.logs.events import parse_events
from trainmark.schema.measurement import Measurement
from trainmark.schema.names import ARRIVALS, LOG
from trainmark.suite import load_suite
from trainmark.workload import load_workloads


def write_log(folder: Path, pieces: Iterable[tuple[float, bytes]]) -> None:
    """Write a run's log, of which each piece arrived at a moment in seconds, and these moments."""
    text, notes = b"", ""
    for moment, piece in pieces:
        text += piece
        notes += f"{moment:.4f} {len(text)}\n"
    (folder / LOG).write_bytes(text)
    (folder / ARRIVALS).write_text(notes)


def measure_command(
    folder: Path, given: CommandOptions, pieces: Iterable[tuple[float, bytes]]
) -> Measurement:
    """Measure the log of a command with these options; ``pieces`` are those of ``write_log``."""
    write_log(folder, pieces)
    suite = load_suite(command_suite(["python3", "train.py"], given, folder).write(folder / "out"))
    (case,) = suite.cases
    card = load_workloads(Path(path) for path in suite.cards).find(case).card
    return measure_run(LoggedRun(case, card, folder), parse_events([]))


def doubts(found: Measurement) -> dict[str, str]:
    return {one.code: one.sentence for one in found.suspicions}
