"""A prediction report as text: the measured scales and the predictions of each configuration, and the refusals."""

from collections.abc import Iterator

from trainmark.printable import printable
from trainmark.schema.prediction import (
    Knee,
    MeasuredScale,
    PredictedScale,
    PredictionReport,
    ScalingModel,
    SeriesPrediction,
)

_HEADINGS = (
    "devices",
    "hosts",
    "batch",
    "throughput",
    "interval",
    "a device",
    "efficiency",
    "limited by",
    "model",
)


def render_prediction(report: PredictionReport) -> str:
    """Return the report for a terminal."""
    parts = [part for series in report.series for part in _series(series)]
    parts.append(
        f"interval: {report.level:.0%}; efficiency: a device's rate relative to the smallest measured scale."
    )
    return printable("\n\n".join(parts)) + "\n"


def _series(series: SeriesPrediction) -> Iterator[str]:
    yield f"{series.series} ({series.unit}, {series.devices_per_node} devices per host)"
    rows = [_HEADINGS, *(_measured(one) for one in series.measured)]
    rows += [
        _row(one)
        for one in series.predicted
        if one.throughput is not None and one.model is not ScalingModel.MEASURED
    ]
    yield _aligned(rows)
    notes = [f"- {_named(one)}: no prediction: {one.refused}." for one in series.predicted if one.refused]
    for one in series.predicted:
        if one.terms and one.model is not ScalingModel.MEASURED:
            parts = "; ".join(f"{term.limit.value} {term.share:.1%} ({term.sentence})" for term in one.terms)
            notes.append(f"- A step on {one.devices} devices: {parts}.")
    notes += [f"- {_knee(knee)}" for knee in series.knees]
    notes += [f"- Assumed: {sentence}." for sentence in series.assumptions]
    if notes:
        yield "\n".join(notes)


def _measured(one: MeasuredScale) -> tuple[str, ...]:
    each = one.throughput / one.devices
    where = (str(one.devices), str(one.nodes), _batch(one.batch_per_device))
    return (*where, _rate(one.throughput), "", _rate(each), "", "", "measured")


def _row(one: PredictedScale) -> tuple[str, ...]:
    assert one.throughput is not None
    assert one.low is not None
    assert one.high is not None
    assert one.model is not None
    efficiency = f"{one.efficiency:.1%} [{one.efficiency_low:.1%}, {one.efficiency_high:.1%}]"
    return (
        str(one.devices),
        str(one.nodes),
        _batch(one.batch_per_device),
        _rate(one.throughput),
        f"[{_rate(one.low)}, {_rate(one.high)}]",
        _rate(one.throughput / one.devices),
        efficiency,
        one.limit.value if one.limit else "",
        one.model.value,
    )


def _named(one: PredictedScale) -> str:
    batch = "" if one.batch_per_device is None else f", batch {one.batch_per_device:g} per device"
    return f"{one.devices} devices{batch}"


def _knee(knee: Knee) -> str:
    batch = "" if knee.batch_per_device is None else f" at batch {knee.batch_per_device:g}"
    if knee.devices is None:
        return (
            f"No knee{batch} up to {knee.searched_to} devices, the most that the measurements allow: "
            f"each doubling gives {knee.gain:g} times the throughput or more."
        )
    return (
        f"Knee{batch}: beyond {knee.devices} devices, twice the devices give less than {knee.gain:g} times "
        "the throughput."
    )


def _batch(batch: float | None) -> str:
    return "-" if batch is None else f"{batch:g}"


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}".replace(",", " ") if value >= 10_000 else f"{value:.4g}"


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 2
    lines = [
        "  ".join(
            cell.ljust(width) if number >= last else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)
