"""The rate that a figure might have on another device: a roofline of two peaks, a model whose error is measured.

A step is between two limits: all of it waits for the matrix units, or all of it for the memory. Its rate on another
device therefore changes by a factor between the ratios of both peaks (Williams, Waterman, Patterson, "Roofline", 2009).
The estimate is the memory's ratio: of the two peaks' ratios and their mean it is the nearest to published pairs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from trainmark.errors import InputError, nearest
from trainmark.measure.device_peaks import Peak, find_peak, load_peaks
from trainmark.printable import significant
from trainmark.reference import Reference
from trainmark.schema.manifest import Manifest
from trainmark.schema.results import Results, pooled
from trainmark.schema.what_if import ModelError, WhatIf, WhatIfReport


@dataclass(frozen=True, slots=True)
class DeviceFigure:
    """A rate of so many devices of one kind; ``device`` and ``precision`` are None if unknown."""

    name: str
    unit: str
    devices: int
    device: str | None
    precision: str | None
    rate: float


def figures_of_results(results: Results) -> list[DeviceFigure]:
    """Return the measured cases of results."""
    found = []
    for case in results.cases:
        if case.estimate is None:
            continue
        manifest = next((results.manifests.get(run.manifest or "") for run in pooled(case.runs)), None)
        gpus = manifest.nodes[0].accelerators.gpus if isinstance(manifest, Manifest) else ()
        device = gpus[0].name if gpus else None
        precision = case.settled.precision.value
        found.append(
            DeviceFigure(
                case.id, case.unit or "", case.case.world_size, device, precision, case.estimate.median
            )
        )
    return found


def figures_of_references(references: Iterable[Reference]) -> list[DeviceFigure]:
    """Return the published figures that have a number."""
    return [
        DeviceFigure(one.id, one.unit, one.devices, one.hardware.device, one.precision, one.value)
        for one in references
        if one.value is not None
    ]


def what_if(
    figures: Sequence[DeviceFigure], target: str, source: str, error: ModelError | None
) -> WhatIfReport:
    """Return the figures on another device; raise ``InputError`` for a device without known peaks."""
    peak = find_peak(target)
    if peak is None:
        devices = [one.device for one in load_peaks()]
        names = [*devices, *(alias for one in load_peaks() for alias in one.aliases)]
        raise InputError(f"--on {target}: no known device{nearest(target, names)} ({', '.join(devices)})")
    found = tuple(_moved(figure, peak) for figure in figures)
    return WhatIfReport(source=source, target=peak.device, figures=found, error=error)


def _moved(figure: DeviceFigure, there: Peak) -> WhatIf:
    known = WhatIf(
        name=figure.name,
        unit=figure.unit,
        devices=figure.devices,
        device=figure.device,
        precision=figure.precision,
        measured=figure.rate,
    )
    here = None if figure.device is None else find_peak(figure.device)
    if here is None:
        return known.model_copy(
            update={"reason": f"the peaks of {figure.device or 'its device'} are unknown"}
        )
    ratios = _ratios(here, there, figure.precision)
    if ratios is None:
        reason = f"the peaks of {here.device} or {there.device} in {figure.precision or 'its precision'} are unknown"
        return known.model_copy(update={"reason": reason})
    rates = sorted(figure.rate * ratio for ratio in ratios)
    return known.model_copy(update={"estimate": figure.rate * ratios[1], "low": rates[0], "high": rates[1]})


def _ratios(here: Peak, there: Peak, precision: str | None) -> tuple[float, float] | None:
    """Return the ratios of the matrix units' and of the memory's peaks; None if one is unknown."""
    one, other = here.dense_tflops(precision), there.dense_tflops(precision)
    before, after = here.bandwidth_gb_per_s, there.bandwidth_gb_per_s
    if not (one and other and before and after):
        return None
    return other / one, after / before


def published_error(references: Iterable[Reference]) -> ModelError | None:
    """Return the model's error on published figures that differ in the device only; None without such a pair."""
    groups: dict[tuple[object, ...], dict[str, Reference]] = {}
    for one in references:
        peak = find_peak(one.hardware.device or "")
        if one.value is not None and peak is not None:
            recipe = tuple(sorted((str(name), str(value)) for name, value in one.recipe.items()))
            key = (one.source.publisher, one.framework, one.model, one.precision, one.devices, one.unit)
            groups.setdefault((*key, one.batch_per_device, recipe), {}).setdefault(peak.device, one)
    pairs = [pair for group in groups.values() for pair in _pairs(group)]
    if not pairs:
        return None
    off = np.array([abs(estimate / figure - 1) for _, estimate, _, _, figure in pairs])
    held = np.array([low <= figure <= high for _, _, low, high, figure in pairs])
    return ModelError(
        pairs=len(pairs),
        median=float(np.median(off)),
        ninetieth=float(np.quantile(off, 0.9)),
        within=float(held.mean()),
        devices=tuple(sorted({name for names, *_ in pairs for name in names})),
    )


def _pairs(group: dict[str, Reference]) -> Iterator[tuple[tuple[str, str], float, float, float, float]]:
    """Yield the devices, the estimate, its limits and the figure of each pair, from the one device to the other."""
    for one, other in combinations(sorted(group), 2):
        ((figure),) = figures_of_references([group[one]])
        moved = what_if([figure], other, "", None).figures[0]
        value = group[other].value
        if (
            moved.estimate is not None
            and moved.low is not None
            and moved.high is not None
            and value is not None
        ):
            yield (one, other), moved.estimate, moved.low, moved.high, value


def render_what_if(report: WhatIfReport) -> str:
    """Return the report for a terminal."""
    lines = [
        f"What if on {report.target}: a model by two peaks (matrix units and memory), not a measurement.",
        "",
    ]
    for one in report.figures:
        if one.estimate is None or one.low is None or one.high is None:
            lines.append(f"  {one.name}: none: {one.reason}")
            continue
        lines.append(
            f"  {one.name}: {significant(one.measured)} {one.unit} on {one.device} -> about "
            f"{significant(one.estimate, 4)} ({significant(one.low, 4)} to {significant(one.high, 4)} by the two peaks)"
        )
    lines += ["", _error(report.error)]
    return "\n".join(lines) + "\n"


def _error(error: ModelError | None) -> str:
    if error is None:
        return "Its error is unknown: no published pair differs only in the device."
    return (
        f"Its error on {error.pairs} published pairs that differ only in the device ({', '.join(error.devices)}): "
        f"{error.median:.0%} at the median, {error.ninetieth:.0%} at the 90th percentile; {error.within:.0%} of the "
        "figures are between the two ratios. Other devices and programs may be further off."
    )
