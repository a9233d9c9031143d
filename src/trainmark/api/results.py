"""Results of measured suites and commands: ``trainmark.load`` and ``trainmark.Results``."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from trainmark.api.pictures import throughput_picture
from trainmark.api.tables import Table
from trainmark.errors import InputError
from trainmark.printable import counted
from trainmark.schema.results import Results as ResultsDocument

_CASE_COLUMNS = (
    "case",
    "outcome",
    "throughput_median",
    "interval_low",
    "interval_high",
    "unit",
    "runs_counted",
    "speedup",
    "suspicions",
)
_RUN_COLUMNS = ("case", "repeat", "outcome", "throughput", "unit", "window_s", "measured_steps", "suspicions")


class Results:
    """The results of a suite or a command: tables of cases and of runs, and the document they come from.

    ``directory`` is the result directory (None: none is known). In a notebook it shows the table of cases and a plot.

    Example::

        results = trainmark.load("results/demo")
        results.to_pandas()[["case", "throughput_median", "unit"]]
        results.runs.to_polars()
    """

    def __init__(self, document: ResultsDocument, directory: Path | None = None) -> None:
        self.document = document
        self.directory = directory

    @property
    def name(self) -> str:
        """The name of the suite."""
        return self.document.suite

    @property
    def holds(self) -> bool:
        """True if every run is ok and did the requested work (the exit code of ``trainmark run`` is then 0)."""
        return self.document.holds

    @cached_property
    def cases(self) -> Table:
        """One row a case: its axes, ``throughput_median`` in ``unit`` with its 95 % interval, speedup and doubts."""
        from trainmark.report.csvfile import case_rows

        columns, rows = case_rows(self.document)
        return Table(columns, tuple(rows), _CASE_COLUMNS)

    @cached_property
    def runs(self) -> Table:
        """One row a run: its case's axes, outcome, ``throughput`` in ``unit``, window and steps; times in seconds."""
        from trainmark.report.csvfile import run_rows

        columns, rows = run_rows(self.document)
        return Table(columns, tuple(rows), _RUN_COLUMNS)

    def to_pandas(self) -> Any:
        """Return the table of cases as a ``pandas.DataFrame``; raise ``InputError`` if pandas is missing."""
        return self.cases.to_pandas()

    def to_polars(self) -> Any:
        """Return the table of cases as a ``polars.DataFrame``; raise ``InputError`` if polars is missing."""
        return self.cases.to_polars()

    def to_arrow(self) -> Any:
        """Return the table of cases as a ``pyarrow.Table``; raise ``InputError`` if pyarrow is missing."""
        return self.cases.to_arrow()

    def export(
        self, to: str, output: str | os.PathLike[str], against: "Results | None" = None, within: float = 0.0
    ) -> tuple[str, ...]:
        """Write the results for another tool, and return the paths or addresses that were written.

        ``to`` is a format of ``trainmark export``, such as ``"mlflow"``; ``output`` is a path, or an address for
        ``mlflow`` and ``openmetrics``. ``against`` is the baseline of a ``junit`` or ``github-summary`` export;
        differences of up to the share ``within`` are no change. Raises ``InputError`` if the library of the tool is
        missing or the output cannot be written; nothing is left half written.

        Example::

            trainmark.load("results/demo").export("tensorboard", "events")
        """
        from trainmark.insight import compare
        from trainmark.report.export import export, find_format

        comparison = compare([against.document], self.document, within=within) if against else None
        return export(self.document, find_format(to), os.fspath(output), self.directory, comparison).written

    def __str__(self) -> str:
        """Return the table as text."""
        return str(self.cases)

    def __repr__(self) -> str:
        """Return a one-line description."""
        return f"<trainmark.Results {self.name}: {counted(len(self.document.cases), 'case')}>"

    def _repr_html_(self) -> str:
        return self.cases._repr_html_() + throughput_picture(self.document.cases)


def load(dir_or_store: str | os.PathLike[str]) -> Results:
    """Return the results in a result directory, in a ``results.json``, or of ``STORE#CAMPAIGN`` in a database.

    ``STORE`` is a SQLite file or a PostgreSQL address, ``CAMPAIGN`` a number of ``trainmark store list``; without it
    the latest one. Raises ``InputError``, in one line, for a missing or damaged source and for a newer schema.

    Example::

        trainmark.load("results/demo")
        trainmark.load("history.sqlite#3")
    """
    source = os.fspath(dir_or_store)
    document = read_source(source)
    return Results(document, Path(source) if Path(source).is_dir() else None)


def read_source(source: str) -> ResultsDocument:
    """Return the document of a result directory, a ``results.json`` or a database's campaign."""
    from trainmark.cli.results import database_of, results_at

    address, _ = database_of(source)
    if address is not None and "://" not in address and not Path(address).exists():
        raise InputError(f"{source}: no such result directory, results.json or database")
    return results_at(source)
