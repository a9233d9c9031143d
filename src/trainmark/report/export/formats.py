"""The formats of ``trainmark export``, and writing results in one of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import cast

from trainmark.errors import InputError, nearest
from trainmark.report.export.records import ExportedResults, exported
from trainmark.schema.comparison import Comparison
from trainmark.schema.results import Results


class ExportFormat(StrEnum):
    """The formats of ``--to``."""

    PARQUET = "parquet"
    MLLOG = "mllog"
    MLFLOW = "mlflow"
    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    OPENMETRICS = "openmetrics"
    JUNIT = "junit"
    GITHUB_SUMMARY = "github-summary"


@dataclass(frozen=True, slots=True)
class Exporter:
    """A format's writer: the module with ``write(results, output)``, and what ``output`` is."""

    module: str
    output: str
    compares: bool = False


EXPORTERS: Mapping[ExportFormat, Exporter] = {
    ExportFormat.PARQUET: Exporter("parquet", "a new FOLDER"),
    ExportFormat.MLLOG: Exporter("mllog", "a new FOLDER"),
    ExportFormat.MLFLOW: Exporter("mlflow", "a tracking URI such as http://HOST:5000"),
    ExportFormat.TENSORBOARD: Exporter("tensorboard", "a new FOLDER"),
    ExportFormat.WANDB: Exporter("wandb", "a new FOLDER"),
    ExportFormat.OPENMETRICS: Exporter("openmetrics", "a FILE, or the http:// address of a Pushgateway"),
    ExportFormat.JUNIT: Exporter("junit", "a FILE.xml", compares=True),
    ExportFormat.GITHUB_SUMMARY: Exporter("github", "a FILE.md, to which it is added", compares=True),
}


@dataclass(frozen=True, slots=True)
class Export:
    """A finished export: what was written, as paths or addresses, and how many cases and runs it carries."""

    format: ExportFormat
    written: tuple[str, ...]
    cases: int
    runs: int


def find_format(name: str) -> ExportFormat:
    """Return a format by its name; raise ``InputError`` with the nearest one."""
    try:
        return ExportFormat(name)
    except ValueError:
        known = [one.value for one in ExportFormat]
        raise InputError(
            f"no export format '{name}'{nearest(name, known)} (known: {', '.join(known)})"
        ) from None


def export(
    results: Results,
    to: ExportFormat,
    output: str,
    directory: Path | None = None,
    comparison: Comparison | None = None,
) -> Export:
    """Write ``results`` in a format; ``output`` is a path or an address (``EXPORTERS``).

    ``directory`` has the runs' files, whose steps some formats carry. ``comparison`` has the results as candidate.
    Raises ``InputError`` for an output that cannot be used and for a missing library. Nothing is left half written.
    """
    exporter = EXPORTERS[to]
    if comparison is not None and not exporter.compares:
        able = [one.value for one, how in EXPORTERS.items() if how.compares]
        raise InputError(f"--to {to} carries no comparison: a baseline is for {' and '.join(able)}")
    if not output:
        raise InputError(f"--to {to} needs an output: {exporter.output}")
    module = import_module(f"trainmark.report.export.{exporter.module}")
    write = cast("Callable[[ExportedResults, str], tuple[str, ...]]", module.write)
    try:
        written = write(exported(results, directory, comparison), output)
    except FileExistsError as error:
        raise InputError(f"{error.filename or output}: already exists; give a new folder") from None
    except OSError as error:
        raise InputError(
            f"{error.filename or output}: cannot be written: {error.strerror or error}"
        ) from None
    return Export(to, written, len(results.cases), sum(len(case.runs) for case in results.cases))
