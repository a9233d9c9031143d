"""The reading of one training log: ``trainmark.parse``."""

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmark.errors import InputError

_SHOWN = ("format", "model", "precision", "gpus", "batch_per_device", "records", "skipped", "rule", "status")


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding about a log: a ``code``, a sentence, and its ``severity`` (``doubt``: the number is in doubt)."""

    code: str
    message: str
    severity: str


@dataclass(frozen=True, slots=True)
class LogReading:
    """The throughput and the facts of one log; a fact that the log does not state is None.

    ``throughput`` is in ``unit`` over all devices, by ``rule``; it is None unless ``status`` is ``ok`` or ``guessed``.
    ``row`` is the whole object that ``trainmark parse --json`` prints.
    """

    log: str
    status: str
    throughput: float | None
    unit: str | None
    format: str | None
    framework: str | None
    model: str | None
    precision: str | None
    nodes: int | None
    gpus: int | None
    batch_per_device: int | None
    records: int
    skipped: int
    rule: str | None
    problems: tuple[Problem, ...]
    row: Mapping[str, Any]

    @property
    def is_doubtful(self) -> bool:
        """True if there is no number, or a problem makes it doubtful; ``trainmark parse`` then exits with 1."""
        return self.throughput is None or any(problem.severity == "doubt" for problem in self.problems)

    def __str__(self) -> str:
        """Return the result as text."""
        value = (
            f"no throughput ({self.status})"
            if self.throughput is None
            else f"{self.throughput:.6g} {self.unit}"
        )
        return "\n".join(
            [f"{self.log}: {value}", *(f"  {one.severity}: {one.message}" for one in self.problems)]
        )

    def _repr_html_(self) -> str:
        from trainmark.api.tables import Table

        named = {name: self.row[name] for name in _SHOWN}
        shown = {"throughput": self.throughput, "unit": self.unit, **named}
        problems = tuple({"severity": one.severity, "problem": one.message} for one in self.problems)
        more = Table(("severity", "problem"), problems)._repr_html_() if problems else ""
        return Table(tuple(shown), (shown,))._repr_html_() + more


def parse(
    path_or_text: str | os.PathLike[str],
    *,
    rule: str | None = None,
    skip: int | None = None,
    format: str | None = None,  # noqa: A002 - the name of the option of `trainmark parse`
    gpus: int | None = None,
    nodes: int | None = None,
    batch: int | None = None,
    precision: str | None = None,
    model: str | None = None,
) -> LogReading:
    """Return the throughput of one training log: a file (also compressed), or its text (a string with a line break).

    ``rule`` computes the throughput (``trainmark parse --list-rules``), ``skip`` is the number of records to leave out
    as warm-up, ``format`` a known format or a file that describes one. ``gpus`` (over all nodes), ``nodes``, ``batch``
    (per device), ``precision`` and ``model`` are facts that the log does not state. A log without a number is no error:
    ``status`` and ``problems`` give the reason. Raises ``InputError`` for a missing file, a folder and unknown names.

    Example::

        reading = trainmark.parse("train.log", gpus=8)
        print(reading.throughput, reading.unit)
    """
    from trainmark.cli.parse import given_facts, rule_of
    from trainmark.measure.rules import measure_log
    from trainmark.measure.rules.row import reading_row
    from trainmark.programs.reading import given_format, read_by_format, read_stream_by_format

    facts, chosen, known = (
        given_facts(gpus, nodes, batch, precision, model),
        rule_of(rule, skip),
        given_format(format),
    )
    source = os.fspath(path_or_text)
    if isinstance(path_or_text, str) and "\n" in source:
        log = read_stream_by_format(io.BytesIO(source.encode(errors="replace")), "text", known, facts)
    else:
        _require_file(Path(source))
        log = read_by_format(source, known, facts)
    row = reading_row(log, measure_log(log, chosen))
    same = {name: row[name] for name in LogReading.__dataclass_fields__ if name in row and name != "problems"}
    words = {
        name: None if value is None else str(value) for name, value in same.items() if isinstance(value, str)
    }
    problems = tuple(Problem(one["code"], one["message"], str(one["severity"])) for one in row["problems"])
    return LogReading(**(same | words), problems=problems, row=row)


def _require_file(path: Path) -> None:
    """Raise ``InputError`` for a path that is no log file."""
    if path.is_dir():
        raise InputError(f"{path}: a folder: parse() reads one log (load() reads a result directory)")
    if not path.exists():
        raise InputError(f"{path}: no such file (a text is recognised by its line breaks)")
