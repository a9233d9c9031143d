"""Predict a series at other numbers of devices, or refuse: the choice of the model by the evidence."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from trainmark.prediction.models import (
    CONSTANTS,
    FARTHEST,
    Constants,
    Fit,
    at_batch,
    first_hosts,
    many_hosts,
    measured,
    nearest_two,
    strong,
)
from trainmark.prediction.scales import Scale, ScaleSeries
from trainmark.printable import counted
from trainmark.schema.prediction import (
    Knee,
    Limit,
    MeasuredScale,
    PredictedScale,
    RefusalCode,
    ScalingModel,
    SeriesPrediction,
    Term,
)

LEVEL = 0.9
_RISING = 1.05
"""A device must not be faster by more than this factor at the larger of two scales."""
_SMALLEST_BATCH = 3.0
"""A batch may be smaller than the smallest measured one by this factor at most."""
_LEAST_RANGE = 1.5
"""The largest measured batch must be larger than the smallest by this factor."""
_MOST_GROWTH = 1.25
"""A sample may take this many times as long at the smaller batch; series that lose more were not predicted well."""
_LEAST_EFFICIENCY = 0.4
"""A device of the largest measured scale must reach this part of the smallest one's rate."""
_COMPUTE_LIMITS = 0.9
_GAIN = 1.6


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not an error
    """The reason why the measurements allow no prediction: its code, and a sentence."""

    def __init__(self, code: RefusalCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def predict_series(
    series: ScaleSeries, devices: Iterable[int], batches: Sequence[float] | None = None
) -> SeriesPrediction:
    """Return the predictions for each number of devices and batch a device.

    Without ``batches`` it is each batch that was measured at the most devices of its own.
    """
    chosen = _usual_batches(series) if batches is None else tuple(batches)
    wanted = sorted(set(devices))
    return SeriesPrediction(
        series=series.name,
        unit=series.unit,
        devices_per_node=series.devices_per_node,
        measured=tuple(
            MeasuredScale(
                devices=scale.devices,
                nodes=scale.nodes,
                batch_per_device=scale.batch,
                throughput=scale.rate,
                spread=scale.spread,
            )
            for scale in series.scales
        ),
        assumptions=series.assumptions,
        predicted=tuple(predict(series, number, batch) for batch in chosen for number in wanted),
        knees=tuple(knee for batch in chosen if (knee := _knee(series, batch)) is not None),
    )


def predict(
    series: ScaleSeries, devices: int, batch: float | None, constants: Constants = CONSTANTS
) -> PredictedScale:
    """Return the prediction for one number of devices, or the reason why there is none."""
    nodes = series.nodes(devices)
    try:
        fit, scales = _fitted(series, devices, batch, constants)
    except Refusal as refusal:
        return PredictedScale(
            devices=devices, nodes=nodes, batch_per_device=batch, refused=str(refusal), refusal=refusal.code
        )
    throughput = devices / fit.time
    wide = None if fit.half_width is None else math.exp(fit.half_width)
    base = scales[0]
    efficiency = base.time / fit.time
    terms = _terms(scales, fit, nodes)
    return PredictedScale(
        devices=devices,
        nodes=nodes,
        batch_per_device=batch,
        model=fit.model,
        throughput=throughput,
        low=None if wide is None else throughput / wide,
        high=None if wide is None else throughput * wide,
        efficiency=efficiency,
        efficiency_low=None if wide is None else efficiency / wide,
        efficiency_high=None if wide is None else efficiency * wide,
        efficiency_of=base.devices,
        limit=_limit(terms),
        terms=terms,
    )


def _usual_batches(series: ScaleSeries) -> tuple[float | None, ...]:
    """Return the batches that were measured at two scales or more; else that of the largest scale."""
    repeated = [batch for batch in series.batches if len(_weak_scales(series, batch)) > 1]
    return tuple(repeated) or (series.scales[-1].batch,)


def _fitted(
    series: ScaleSeries, devices: int, batch: float | None, constants: Constants
) -> tuple[Fit, tuple[Scale, ...]]:
    """Return the fit and the scales that it rests on, in the order of devices; raise ``Refusal`` if there is none."""
    scales = _weak_scales(series, batch)
    for scale in scales:
        if scale.devices == devices:
            return measured(scale), scales
    if len(scales) > 1:
        try:
            return _weak(series, scales, devices, constants), scales
        except Refusal as refusal:
            # Other batches may still show enough.
            missing = refusal.code in (RefusalCode.ONE_HOST, RefusalCode.TOO_FEW)
            if not missing or batch is None or len(series.batches) < 2:
                raise
    if batch is None or len(series.batches) < 2:
        raise _too_few(scales, batch)
    return _strong(series, devices, batch, constants)


def _too_few(scales: Sequence[Scale], batch: float | None) -> Refusal:
    of = "" if batch is None else f" of batch {batch:g} per device"
    if not scales:
        return Refusal(
            RefusalCode.TOO_FEW if batch is None else RefusalCode.BATCH_NOT_MEASURED,
            f"no scale{of} was measured: measure two, the larger one on several hosts",
        )
    return Refusal(
        RefusalCode.TOO_FEW,
        f"only one scale{of} was measured ({scales[0].devices} devices): measure a second one, on several hosts",
    )


def _weak_scales(series: ScaleSeries, batch: float | None) -> tuple[Scale, ...]:
    """Return the scales at a batch a device: measured there, or between two batches of the same devices."""
    found = {scale.devices: scale for scale in series.at_batch(batch)}
    if batch is not None:
        for devices in sorted({scale.devices for scale in series.scales} - found.keys()):
            between = at_batch([scale for scale in series.scales if scale.devices == devices], batch)
            if between is not None:
                found[devices] = between
    return tuple(found[devices] for devices in sorted(found))


def _weak(series: ScaleSeries, scales: tuple[Scale, ...], devices: int, constants: Constants) -> Fit:
    several = [scale for scale in scales if scale.nodes > 1]
    alone = [scale for scale in scales if scale.nodes == 1]
    on_one = series.nodes(devices) == 1
    if not on_one and not several:
        raise _one_host(series, devices)
    model = ScalingModel.WITHIN_HOST if on_one else ScalingModel.MANY_HOSTS
    full = alone[-1:] if alone and alone[-1].devices == series.devices_per_node else []
    between = bool(full) and not on_one and devices < several[0].devices
    if (used := None if between else nearest_two(alone if on_one else several, devices)) is not None:
        fit = many_hosts(*used, devices, model)
    elif full and not on_one:
        model, used = ScalingModel.FIRST_HOSTS, (full[0], several[0 if between else -1])
        fit = first_hosts(*used, devices, constants)
    else:
        raise Refusal(
            RefusalCode.TOO_FEW,
            "the measured scales are too few: two are needed that differ by a factor of 1.4 or more, "
            "both on several hosts or the smaller one on a full host",
        )
    _require_near(used[0], used[-1], devices, model)
    _require_falling(series, used)
    if scales[0].time < _LEAST_EFFICIENCY * used[-1].time:
        raise Refusal(
            RefusalCode.INEFFICIENT,
            f"a device reaches {scales[0].time / used[-1].time:.0%} of its rate on {scales[0].devices} at "
            f"{used[-1].devices} devices: something other than the exchange limits it",
        )
    return fit


def _one_host(series: ScaleSeries, devices: int) -> Refusal:
    return Refusal(
        RefusalCode.ONE_HOST,
        "no scale on more than one host was measured, so the cost of the exchange between hosts is unknown "
        f"({devices} devices are {series.nodes(devices)} hosts): measure two hosts",
    )


def _strong(
    series: ScaleSeries, devices: int, batch: float, constants: Constants
) -> tuple[Fit, tuple[Scale, ...]]:
    """Return the fit of scales with different batches a device; raise ``Refusal`` outside of what they show."""
    known = [scale for scale in series.scales if scale.batch is not None]
    if series.nodes(devices) > 1:
        known = [scale for scale in known if scale.nodes > 1]
        if not known:
            raise _one_host(series, devices)
    path = {scale.devices: scale for scale in known}
    scales = tuple(path[number] for number in sorted(path))
    batches = [scale.batch or 0.0 for scale in scales]
    if len(scales) < 2 or max(batches) < _LEAST_RANGE * min(batches):
        hosts = " on several hosts" if series.nodes(devices) > 1 else ""
        raise Refusal(
            RefusalCode.TOO_FEW,
            f"batch {batch:g} per device has too few measurements{hosts}: measure two scales of this batch, "
            f"or two batches that differ by a factor of {_LEAST_RANGE:g}",
        )
    if batch > 1.02 * max(batches) or batch < min(batches) / _SMALLEST_BATCH:
        raise Refusal(
            RefusalCode.BATCH_OUT_OF_RANGE,
            f"batch {batch:g} per device is outside the measured range ({min(batches):g} to {max(batches):g}, "
            "and down to a third of the smallest): measure it",
        )
    _require_near(scales[0], scales[-1], devices, ScalingModel.STRONG)
    if any(small.time > _RISING * large.time for small, large in pairwise(scales)):
        raise Refusal(
            RefusalCode.RISING,
            "a device becomes faster with more devices and a smaller batch: no model of scaling allows this",
        )
    fit = strong(scales, devices, batch, constants)
    if fit.time > _MOST_GROWTH * scales[-1].time:
        raise Refusal(
            RefusalCode.TOO_SLOW,
            f"a sample would take {fit.time / scales[-1].time:.1f} times as long at batch {batch:g} as at "
            f"{scales[-1].batch:g}: predictions were checked up to {_MOST_GROWTH:g} times only",
        )
    return fit, scales


def _require_near(smallest: Scale, largest: Scale, devices: int, model: ScalingModel) -> None:
    farthest = FARTHEST[model]
    if farthest * devices < smallest.devices:
        raise Refusal(
            RefusalCode.TOO_FAR,
            f"{devices} devices are less than 1/{farthest:g} of the {smallest.devices} that were measured: measure "
            f"{math.floor(farthest * devices)} or fewer",
        )
    if devices > farthest * largest.devices:
        raise Refusal(
            RefusalCode.TOO_FAR,
            f"{devices} devices are more than {farthest:g} times the {largest.devices} that were measured: "
            f"predictions were checked up to that factor only; measure {math.ceil(devices / farthest)} or more",
        )


def _require_falling(series: ScaleSeries, used: Sequence[Scale]) -> None:
    """Raise ``Refusal`` if a device is faster at the larger of two scales, at any batch that has both."""
    for low, high in pairwise([scale.devices for scale in used][-2:]):
        for batch in series.batches:
            times = {scale.devices: scale.time for scale in series.at_batch(batch)}
            if low in times and high in times and times[low] > _RISING * times[high]:
                at = "" if batch is None else f" at batch {batch:g}"
                raise Refusal(
                    RefusalCode.RISING,
                    f"a device is {times[low] / times[high] - 1:.0%} faster on {high} devices than on {low}{at}: "
                    "something other than the scale differs, such as the input or the host's processor",
                )


def _terms(scales: Sequence[Scale], fit: Fit, nodes: int) -> tuple[Term, ...]:
    """Return the parts of the predicted time of a step that the measurements tell from each other."""
    base = scales[0]
    on_host = [scale for scale in scales if scale.nodes == 1]
    host = on_host[-1] if on_host else base
    computing = min(1.0, base.time / fit.time)
    within = max(0.0, min(1.0, host.time / fit.time) - computing) if host is not base else 0.0
    between = max(0.0, 1 - computing - within) if nodes > 1 else 0.0
    if nodes == 1:
        within = 1 - computing
    recorded = {term.limit: term for scale in scales[-1:] for term in scale.evidence}
    found = []
    for limit in (Limit.INPUT, Limit.STRAGGLERS):
        if limit in recorded:
            found.append(recorded[limit])
    noted = sum(term.share for term in found)
    lost = max(0.0, within + between - noted)
    whole = within + between
    parts = (
        (Limit.COMPUTE, computing, f"{counted(base.devices, 'device')} spend it too"),
        (
            Limit.WITHIN_HOST,
            within * lost / whole if whole else 0.0,
            f"added from {base.devices} to {host.devices} devices",
        ),
        (
            Limit.BETWEEN_HOSTS,
            between * lost / whole if whole else 0.0,
            f"added beyond {host.devices} devices",
        ),
    )
    found += [Term(limit=limit, share=share, sentence=text) for limit, share, text in parts if share > 0.0005]
    return tuple(sorted(found, key=lambda term: -term.share))


def _limit(terms: Sequence[Term]) -> Limit:
    computing = next((term.share for term in terms if term.limit is Limit.COMPUTE), 0.0)
    others = [term for term in terms if term.limit is not Limit.COMPUTE]
    return others[0].limit if others and computing <= _COMPUTE_LIMITS else Limit.COMPUTE


def _knee(series: ScaleSeries, batch: float | None) -> Knee | None:
    """Return the scale from which doubling the devices gives less than ``_GAIN``; None without any prediction."""
    scales = _weak_scales(series, batch)
    if not scales:
        return None
    rates = {scale.devices: scale.rate for scale in scales}
    devices, last = scales[0].devices, None
    while True:
        if devices not in rates:
            found = predict(series, devices, batch)
            if found.throughput is None:
                break
            rates[devices] = found.throughput
        before = rates.get(devices // 2)
        if before is not None and rates[devices] < _GAIN * before:
            return Knee(batch_per_device=batch, devices=devices // 2, searched_to=devices, gain=_GAIN)
        last, devices = devices, devices * 2
    return None if last is None else Knee(batch_per_device=batch, devices=None, searched_to=last, gain=_GAIN)
