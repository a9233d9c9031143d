"""TensorBoard event files: a run of TensorBoard for each case and for each run, with scalars, step times and texts."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

from trainmark.files import new_folder
from trainmark.imports import import_extra
from trainmark.printable import printable
from trainmark.report.export.paths import events_of, folder_name
from trainmark.report.export.records import CaseRecord, ExportedResults, Figure, RunRecord
from trainmark.report.export.wording import doubts_of, throughput_of
from trainmark.report.writing import escape_markdown
from trainmark.schema.results import Doubt

_PURPOSE = "an export to TensorBoard"


def write(source: ExportedResults, output: str) -> tuple[str, ...]:
    """Write event files into the new folder ``output``: ``CASE/`` and ``CASE/REPEAT/``; return its path."""
    board = import_extra("tensorboardX", _PURPOSE)
    with new_folder(Path(output)) as folder:
        for case in source.cases:
            name = folder_name(case.id)
            _write_case(board, folder / name, source, case)
            for run in case.runs:
                _write_run(board, folder / name / str(run.repeat), source, run)
    return (output,)


def _write_case(board: Any, folder: Path, source: ExportedResults, case: CaseRecord) -> None:
    with _writer(board, folder) as writer:
        when = _seconds(source.results.measured[1])
        for figure in case.figures:
            _scalar(writer, "case", figure, 0, when)
        lines = [throughput_of(case), *(f"{axis}: {value}" for axis, value in case.axes.items())]
        lines += [f"{fact}: {value}" for fact, value in case.facts.items()]
        _text(writer, "case", [*lines, *doubts_of(case)], when)
        _hyperparameters(writer, case)


def _write_run(board: Any, folder: Path, source: ExportedResults, run: RunRecord) -> None:
    with _writer(board, folder) as writer:
        when = _seconds(run.started_at)
        for figure in run.figures:
            _scalar(writer, "run", figure, run.repeat, when)
        words = [f"outcome: {run.outcome.value}{f' ({run.reason})' if run.reason else ''}"]
        words += [f"{fact}: {value}" for fact, value in run.facts.items()]
        _text(writer, "run", [*words, *_doubts(run.doubts)], when)
        events = events_of(run, source.directory)
        if events is None:
            return
        for step, (time_s, measured) in enumerate(zip(events.step_times_s, events.measured, strict=True)):
            if isfinite(time_s):
                phase = "measured" if measured else "warmup"
                writer.add_scalar(f"step_time_s/{phase}", float(time_s), step, walltime=when)
        for step, loss in enumerate(events.losses):
            if isfinite(loss):
                writer.add_scalar("loss", float(loss), step, walltime=when)


@contextmanager
def _writer(board: Any, folder: Path) -> Iterator[Any]:
    writer = board.SummaryWriter(logdir=str(folder), flush_secs=3600)
    try:
        yield writer
    finally:
        writer.close()


def _scalar(writer: Any, kind: str, figure: Figure, step: int, when: float) -> None:
    unit = f"{figure.name.replace('_', ' ')} ({figure.unit})"
    writer.add_scalar(_tag(kind, figure), figure.value, step, walltime=when, summary_description=unit)


def _tag(kind: str, figure: Figure) -> str:
    """Return a tag that ends in the unit, such as ``case/throughput_median_images_per_s``: tags are plain words."""
    unit = re.sub(r"\W+", "_", figure.unit.replace("/", "_per_"))
    return f"{kind}/{figure.name}" if figure.name.endswith(f"_{unit}") else f"{kind}/{figure.name}_{unit}"


def _text(writer: Any, tag: str, lines: Iterable[str], when: float) -> None:
    writer.add_text(
        tag, "\n".join(f"- {escape_markdown(printable(line))}" for line in lines), 0, walltime=when
    )


def _doubts(doubts: Iterable[Doubt]) -> Iterator[str]:
    for doubt in doubts:
        yield f"in doubt: {doubt.sentence} ({doubt.code})"


def _hyperparameters(writer: Any, case: CaseRecord) -> None:
    """Write the case's axes and its number for TensorBoard's table of hyperparameters; its outcome is a word there."""
    summary = import_extra("tensorboardX.summary", _PURPOSE)
    words = {**case.axes, "outcome": case.outcome.value}
    for part in summary.hparams(words, {_tag("case", figure): figure.value for figure in case.figures}):
        writer.file_writer.add_summary(part)


def _seconds(moment: datetime | None) -> float:
    """Return a Unix time; 0 for an unknown one, because an event has a time."""
    return moment.timestamp() if moment else 0.0
