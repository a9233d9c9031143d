"""Two Parquet files: a row for each case and for each run, with units in the columns' metadata and doubts in full."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.files import new_folder
from trainmark.imports import import_extra
from trainmark.report.csvfile import case_rows, run_rows
from trainmark.report.export.records import UNIT_OF_COLUMN, CaseRecord, ExportedResults, RunRecord, unit_of
from trainmark.schema.results import Doubt

CASES, RUNS = "cases.parquet", "runs.parquet"


def write(source: ExportedResults, output: str) -> tuple[str, ...]:
    """Write both files into the new folder ``output``; return their paths."""
    arrow = import_extra("pyarrow", "an export to Parquet")
    parquet = import_extra("pyarrow.parquet", "an export to Parquet")
    runs = [run for case in source.cases for run in case.runs]
    tables = {
        CASES: _table(arrow, source, case_rows(source.results), source.cases),
        RUNS: _table(arrow, source, run_rows(source.results), runs),
    }
    with new_folder(Path(output)) as folder:
        for name, table in tables.items():
            parquet.write_table(table, folder / name)
    return tuple(str(Path(output) / name) for name in tables)


def _table(
    arrow: Any,
    source: ExportedResults,
    content: tuple[Sequence[str], Sequence[Mapping[str, Any]]],
    records: Sequence[CaseRecord | RunRecord],
) -> Any:
    columns, rows = content
    rates = {record.unit for record in records if record.unit}
    energies = {found.unit for found in source.findings.energy}
    arrays, fields = [], []
    for name in columns:
        values = [row.get(name) for row in rows]
        kind, unit = _type(arrow, name, values), unit_of(name, _single(rates), _single(energies))
        if kind == arrow.string():
            values = [None if value is None else str(value) for value in values]
        arrays.append(arrow.array(values, kind))
        fields.append(arrow.field(name, kind, metadata={"unit": unit} if unit else None))
    bounds = [record.facts.get("bound_by") for record in records]
    if any(bounds):
        arrays.append(arrow.array(bounds, arrow.string()))
        fields.append(arrow.field("bound_by", arrow.string()))
    arrays.append(arrow.array([_doubts(record.doubts) for record in records], _doubt_type(arrow)))
    fields.append(arrow.field("doubts", _doubt_type(arrow)))
    results = source.results
    about = {
        "trainmark.suite": results.suite,
        "trainmark.version": results.trainmark_version,
        "trainmark.generated_at": results.generated_at.isoformat(),
        "trainmark.complete": str(results.complete).lower(),
    }
    return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields, metadata=about))


def _single(units: Iterable[str]) -> str | None:
    """Return the only unit; with several, the column ``unit`` has that of each row."""
    found = set(units)
    return found.pop() if len(found) == 1 else None


def _type(arrow: Any, name: str, values: Sequence[Any]) -> Any:
    """Return a column's type: numbers where it holds nothing else, also if it is empty."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return arrow.bool_()
    if known and all(isinstance(value, int) and not isinstance(value, bool) for value in known):
        return arrow.float64() if name.startswith(("throughput", "energy")) else arrow.int64()
    if name in UNIT_OF_COLUMN and all(isinstance(value, int | float) for value in known):
        return arrow.float64()
    return arrow.string()


def _doubt_type(arrow: Any) -> Any:
    text, number = arrow.string(), arrow.float64()
    members = (("code", text), ("about", text), ("sentence", text), ("repeat", arrow.int64()))
    return arrow.list_(arrow.struct([*members, ("value", number), ("bound", number)]))


def _doubts(doubts: Iterable[Doubt]) -> list[dict[str, Any]]:
    return [
        {
            "code": doubt.code,
            "about": doubt.about.value,
            "sentence": doubt.sentence,
            "repeat": doubt.repeat,
            "value": doubt.value,
            "bound": doubt.bound,
        }
        for doubt in doubts
    ]
