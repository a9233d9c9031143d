"""Check the models on published series: leave the largest scale out, predict it, compare."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainmark.prediction.forecast import predict
from trainmark.prediction.models import CONSTANTS, Constants
from trainmark.prediction.scales import ScaleSeries
from trainmark.schema.prediction import RefusalCode, ScalingModel


@dataclass(frozen=True, slots=True)
class Trial:
    """One published number and its prediction from the smaller scales of its series.

    ``error`` is the predicted over the published throughput, minus 1; it and ``half_width`` (on logarithms) are null
    for a refusal, whose code is in ``refused``.
    """

    source: str
    series: str
    largest: int
    devices: int
    batch: float | None
    model: ScalingModel | None
    error: float | None
    half_width: float | None
    refused: RefusalCode | None

    @property
    def covered(self) -> bool:
        """True if the published number is in the interval."""
        assert self.error is not None
        assert self.half_width is not None
        return abs(math.log1p(self.error)) <= self.half_width


def trials(sources: Mapping[str, Iterable[ScaleSeries]], constants: Constants = CONSTANTS) -> list[Trial]:
    """Return the trials of all series; a configuration that several sources print is tried once."""
    found, known = [], set()
    for source, configurations in sources.items():
        for series in configurations:
            if (numbers := tuple((scale.devices, scale.rate) for scale in series.scales)) not in known:
                known.add(numbers)
                found += list(_trials(source, series, constants))
    return found


def _trials(source: str, series: ScaleSeries, constants: Constants) -> Iterator[Trial]:
    """Yield the trials of one series: each scale from the third on, by all smaller ones."""
    for devices in sorted({scale.devices for scale in series.scales})[2:]:
        smaller = tuple(scale for scale in series.scales if scale.devices < devices)
        rest = replace(series, scales=smaller)
        done = set()
        for scale in series.scales:
            # One number printed for two batches is one measurement.
            if scale.devices != devices or scale.rate in done:
                continue
            done.add(scale.rate)
            found = predict(rest, devices, scale.batch, constants)
            error = None if found.throughput is None else found.throughput / scale.rate - 1
            half = None if found.throughput is None else math.log((found.high or 0.0) / found.throughput)
            yield Trial(
                source,
                series.name,
                smaller[-1].devices,
                devices,
                scale.batch,
                found.model,
                error,
                half,
                found.refusal,
            )


@dataclass(frozen=True, slots=True)
class Summary:
    """The errors of several trials, as parts of the published numbers; null if all were refused."""

    predicted: int
    refused: int
    median: float | None
    percentile_90: float | None
    largest: float | None
    covered: float | None


def summarise(found: Sequence[Trial]) -> Summary:
    """Return the errors of the trials."""
    made = [trial for trial in found if trial.error is not None]
    if not made:
        return Summary(0, len(found), None, None, None, None)
    errors = np.abs([trial.error for trial in made if trial.error is not None])
    return Summary(
        predicted=len(made),
        refused=len(found) - len(made),
        median=float(np.median(errors)),
        percentile_90=float(np.quantile(errors, 0.9)),
        largest=float(errors.max()),
        covered=sum(trial.covered for trial in made) / len(made),
    )
