"""Limits of an effect that follow from arithmetic: numbers of devices, and peaks by the vendors' data sheets."""

from dataclasses import dataclass

from trainmark.insight.recipe import StatedRecipe
from trainmark.measure.device_peaks import Peak, find_peak
from trainmark.schema.recipe import AxisName, Condition


@dataclass(frozen=True, slots=True)
class Limit:
    """The factors between which an effect must be, and the arithmetic as a sentence."""

    low: float
    high: float
    sentence: str


def physical_limit(
    axis: AxisName, here: StatedRecipe, there: StatedRecipe, device: str | None
) -> Limit | None:
    """Return the limit of going from one value of an axis to the other; None if no arithmetic gives one.

    ``device`` is the device assumed for both sides.
    """
    if axis == Condition.DEVICES:
        return _devices(here.value(axis), there.value(axis))
    if axis == Condition.PRECISION:
        return _precision(str(here.value(axis)), str(there.value(axis)), _peak(device))
    if axis == Condition.DEVICE:
        return _device(here, there)
    return None


def _devices(here: object, there: object) -> Limit | None:
    if not isinstance(here, int) or not isinstance(there, int):
        return None
    factor = there / here
    return Limit(factor, factor, f"{there} devices do {factor:.4g} times the work of {here} at an equal rate")


def _precision(here: str, there: str, peak: Peak | None) -> Limit | None:
    if peak is None:
        return None
    one, other = peak.dense_tflops(here), peak.dense_tflops(there)
    if not one or not other:
        return None
    factor = other / one
    return Limit(
        min(1.0, factor),
        max(1.0, factor),
        f"{peak.device} does at most {one:g} TFLOP/s in {here} and {other:g} in {there}",
    )


def _device(here: StatedRecipe, there: StatedRecipe) -> Limit | None:
    one, other = (_peak(str(side.value(Condition.DEVICE))) for side in (here, there))
    precision = str(here.value(Condition.PRECISION) or there.value(Condition.PRECISION))
    if one is None or other is None:
        return None
    found = {
        "TFLOP/s": (one.dense_tflops(precision), other.dense_tflops(precision)),
        "GB/s of memory": (one.bandwidth_gb_per_s, other.bandwidth_gb_per_s),
    }
    known = [(name, was, is_) for name, (was, is_) in found.items() if was and is_]
    if len(known) < len(found):
        return None
    factors = [is_ / was for _, was, is_ in known]
    words = " and ".join(f"{was:g} against {is_:g} {name}" for name, was, is_ in known)
    return Limit(min(1.0, *factors), max(1.0, *factors), f"{one.device} against {other.device}: {words}")


def _peak(device: str | None) -> Peak | None:
    return None if device is None else find_peak(device)
