"""``trainmark predict``: the throughput at more devices than were measured."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainmark.prediction import ScaleSeries
    from trainmark.reference import Reference

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def predict(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The --out directory of a trainmark run, its results.json, STORE#CAMPAIGN of a database, or the name "
            "of a published table, e.g. llm-foundry.",
        ),
    ],
    devices: Annotated[
        str | None,
        typer.Option(metavar="N,…", help="The numbers of devices to predict, e.g. 32,64."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="Predict for the same number of devices of another kind, e.g. H200, by a model of two peaks with its "
            "error.",
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="B,…",
            help="The batch sizes per device. Default: those measured at two or more scales (weak scaling).",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Only these cases, as in trainmark run; for a published table, its framework, model, device and "
            "precision, e.g. model=mpt_7b,device=H100."
        ),
    ] = None,
    devices_per_node: Annotated[
        int | None,
        typer.Option(min=1, help="The number of devices per host, if the source does not state it."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the predictions as one JSON object.")
    ] = False,
) -> None:
    """Predict the throughput at more devices from measured scales: weak scaling, or strong scaling with --batch.

    Each prediction has a 90 % interval, the efficiency, and the part of a step that limits it. A prediction is refused
    without a measurement on several hosts, for a batch or a scale too far from the measured ones, or if a device is
    faster on more hosts. docs/how-to/predict.md has the errors of the models on published tables.
    Exit code 1: a prediction was refused.
    """
    from trainmark.errors import InputError

    if (devices is None) == (on is None):
        raise InputError("give --devices N,… (more devices) or --on DEVICE (another device)")
    if devices is None:
        raise typer.Exit(_what_if(source, on or "", only, as_json=as_json))
    from trainmark.prediction import LEVEL, predict_series, render_prediction, with_hosts
    from trainmark.schema.prediction import PredictionReport

    numbers = [int(number) for number in _numbers("--devices", devices)]
    batches = None if batch is None else _numbers("--batch", batch)
    if any(number != float(word) for number, word in zip(numbers, devices.split(","), strict=True)):
        raise InputError(f"--devices {devices}: numbers of devices are integers")
    found = _series(source, only)
    if not found:
        raise InputError(
            f"{source}: no configuration has a number at two scales: measure a second number of devices"
        )
    if devices_per_node is not None:
        found = [with_hosts(series, devices_per_node) for series in found]
    report = PredictionReport(
        source=source,
        level=LEVEL,
        series=tuple(predict_series(series, numbers, batches) for series in found),
    )
    sys.stdout.write(report.to_json() if as_json else render_prediction(report))
    raise typer.Exit(0 if report.complete else 1)


def _what_if(source: str, target: str, only: str | None, *, as_json: bool) -> int:
    """Print the figures of a source on another device; return 1 if one has no estimate."""
    from trainmark.prediction import (
        figures_of_references,
        figures_of_results,
        published_error,
        render_what_if,
        what_if,
    )
    from trainmark.reference import load_references

    references = _references(source, only)
    if references is None:
        from trainmark.cli.results import results_at, selected

        figures = figures_of_results(selected(results_at(source), only))
    else:
        figures = figures_of_references(references)
    report = what_if(figures, target, source, published_error(load_references()))
    sys.stdout.write(report.to_json() if as_json else render_what_if(report))
    return 0 if figures and all(one.estimate is not None for one in report.figures) else 1


def _numbers(option: str, text: str) -> list[float]:
    """Return positive numbers; raise ``InputError`` for anything else."""
    from math import isfinite

    from trainmark.errors import InputError

    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or any(number <= 0 or not isfinite(number) or number > 1e9 for number in found):
        raise InputError(f"{option} {text}: expected positive numbers, separated by commas")
    return found


def _references(source: str, only: str | None) -> "tuple[Reference, ...] | None":
    """Return the chosen figures of a published table; None if the source is no table's name."""
    if Path(source).exists() or "#" in source or "://" in source:
        return None
    from trainmark.reference import published_sources, select_words

    published = published_sources()
    if source not in published:
        from trainmark.errors import InputError, nearest

        raise InputError(
            f"{source}: no such directory, file or published table{nearest(source, published)} "
            f"(published: {', '.join(published)})"
        )
    return select_words(published[source], only)


def _series(source: str, only: str | None) -> "list[ScaleSeries]":
    from trainmark.prediction import series_from_references, series_from_results

    references = _references(source, only)
    if references is not None:
        return series_from_references(references)
    from trainmark.cli.results import results_at, selected

    return series_from_results(selected(results_at(source), only))
