"""The models of scaling: the time of a unit of work at more devices, and how far it may be wrong.

``time`` is the device-seconds of a unit of work: devices / throughput. It is constant under ideal scaling.

* Weak scaling (the batch of a device is that of the measurements) over scales of several hosts, and within one host:
  ``time = a + b log2 N`` from the two largest scales, with ``b >= 0``.
* Weak scaling from one full host and one scale of more hosts. A ring exchange among H hosts moves ``2 (H - 1) / H`` of
  the gradients over the network, so that the second doubling of the hosts adds half of what the first added, the third
  a quarter. Published tables show 0.3 instead of 0.5 of it, and 2 % more time with each doubling, which is what the
  wait for the slowest host adds: ``Constants``.
* Strong scaling (the batch of a device falls): a step has a cost of its own, so that ``time = c + d / batch``, and this
  cost grows with the devices: published series lose 1.7 times as much as a constant cost explains.

Between two measured scales ``time`` is interpolated between the nearest two; from one full host to several hosts by the
same shares of the exchange.

An interval covers the measurements' own spread and the error of the model. The latter was found by leaving the largest
scale out of published series (``benchmarks/prediction.py``): the half width, on logarithms, is
``sqrt(floor² + (part · growth)²)``, where ``growth`` is the logarithm of the predicted over the last measured time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.measure.statistics import student_t
from trainmark.prediction.scales import Scale
from trainmark.schema.prediction import ScalingModel

_UNKNOWN_SPREAD = 0.01
"""The spread of a run without repeats."""
_LEVEL = 0.9
_LEAST_FACTOR = 1.4
"""The least factor between the two scales that give a slope."""


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants that were chosen by published tables; ``docs/appendix/predicting.md`` has the errors with others.

    A doubling of the hosts adds ``first_share`` of what the first one added, halved with each further doubling, and
    ``doubling_cost`` of the time.
    Under strong scaling the loss is ``step_growth`` times that of a constant cost of a step.
    """

    first_share: float = 0.3
    doubling_cost: float = 0.02
    step_growth: float = 1.7
    doubling_cost_strong: float = 0.01


CONSTANTS = Constants()

ERRORS = {
    ScalingModel.WITHIN_HOST: (0.04, 1.8),
    ScalingModel.FIRST_HOSTS: (0.05, 0.9),
    ScalingModel.MANY_HOSTS: (0.03, 0.8),
    ScalingModel.STRONG: (0.05, 0.7),
}
"""``floor`` and ``part`` of each model's error at the level of 90 %."""

FARTHEST = {
    ScalingModel.WITHIN_HOST: 4.0,
    ScalingModel.FIRST_HOSTS: 2.0,
    ScalingModel.MANY_HOSTS: 4.0,
    ScalingModel.STRONG: 4.0,
}
"""The most times the largest measured number of devices that the published series allow to check."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A predicted ``time``, and the half width of its interval on logarithms at 90 %; None if nothing shows it."""

    model: ScalingModel
    time: float
    half_width: float | None


def measured(scale: Scale) -> Fit:
    """Return a measured scale, with the interval that its runs show."""
    known = scale.spread is not None and scale.runs > 1
    return Fit(ScalingModel.MEASURED, scale.time, margin(scale) if known else None)


def many_hosts(small: Scale, large: Scale, devices: int, model: ScalingModel) -> Fit:
    """Return the prediction from two scales, between or beyond them."""
    slope = (large.time - small.time) / math.log2(large.devices / small.devices)
    doublings = math.log2(devices / large.devices)
    if devices > large.devices:
        slope = max(0.0, slope)
    time = large.time + slope * doublings
    # A slope has the noise of both scales, as often as it is taken.
    lever = doublings / math.log2(large.devices / small.devices)
    noise = math.hypot((1 + lever) * margin(large), lever * margin(small))
    return _fit(model, time, large.time, noise, max(1.0, abs(doublings)))


def first_hosts(host: Scale, several: Scale, devices: int, constants: Constants) -> Fit:
    """Return the prediction from one full host and the scale of several hosts."""
    first = max(0.0, 1 - host.time / several.time) / math.log2(several.nodes)
    doublings = math.log2(devices / several.devices)
    exchange = constants.first_share * first * 2 * (1 - 2.0**-doublings)
    time = several.time * (1 + exchange + constants.doubling_cost * doublings)
    noise = math.hypot((1 + constants.first_share) * margin(several), constants.first_share * margin(host))
    if doublings < 0:
        share = _exchange(devices / host.devices, constants) / _exchange(several.nodes, constants)
        time = host.time + share * (several.time - host.time)
        noise = math.hypot(share * margin(several), (1 - share) * margin(host))
    # The error is that of the exchange, which was observed as the loss of the first doubling.
    floor, part = ERRORS[ScalingModel.FIRST_HOSTS]
    error = math.hypot(floor, part * constants.first_share * first) * max(1.0, doublings)
    return Fit(ScalingModel.FIRST_HOSTS, time, math.hypot(error, noise))


def _exchange(hosts: float, constants: Constants) -> float:
    """Return what the exchange among so many hosts costs, relative to that between two."""
    return 1 + constants.first_share * 2 * (1 - 2 / hosts)


def strong(scales: Sequence[Scale], devices: int, batch: float, constants: Constants) -> Fit:
    """Return the prediction for a smaller batch a device from scales with two or more batches."""
    inverse = np.array([1 / (scale.batch or math.inf) for scale in scales])
    times = np.array([scale.time for scale in scales])
    slope, offset = np.polyfit(inverse, times, 1)
    last = scales[-1]
    reference = max(last.time, float(offset + slope * inverse[-1]))
    added = max(0.0, float(slope)) * max(0.0, 1 / batch - float(inverse[-1]))
    doublings = max(0.0, math.log2(devices / last.devices))
    time = reference * (1 + constants.doubling_cost_strong * doublings) + constants.step_growth * added
    return _fit(ScalingModel.STRONG, time, reference, margin(last), 1.0)


def at_batch(scales: Sequence[Scale], batch: float) -> Scale | None:
    """Return a scale of one number of devices at a batch between two measured ones: ``time = c + d / batch``."""
    known = sorted(
        (scale for scale in scales if scale.batch is not None), key=lambda scale: scale.batch or 0.0
    )
    below = [scale for scale in known if (scale.batch or 0.0) <= batch]
    above = [scale for scale in known if (scale.batch or 0.0) >= batch]
    if not below or not above:
        return None
    low, high = below[-1], above[0]
    assert low.batch is not None
    assert high.batch is not None
    if low.batch == high.batch:
        return low
    share = (1 / low.batch - 1 / batch) / (1 / low.batch - 1 / high.batch)
    time = low.time + share * (high.time - low.time)
    wider = max((low, high), key=margin)
    return Scale(low.devices, low.nodes, batch, low.devices / time, wider.spread, wider.runs)


def nearest_two(scales: Sequence[Scale], devices: int) -> tuple[Scale, Scale] | None:
    """Return the scales around a number of devices, or the two nearest to it that are far enough from each other."""
    below = [one for one in scales if one.devices < devices]
    above = [one for one in scales if one.devices > devices]
    if below and above:
        return below[-1], above[0]
    if above:
        large = next((one for one in above if one.devices >= _LEAST_FACTOR * above[0].devices), None)
        return None if large is None else (above[0], large)
    small = next((one for one in reversed(below) if below[-1].devices >= _LEAST_FACTOR * one.devices), None)
    return None if small is None else (small, below[-1])


def margin(scale: Scale) -> float:
    """Return the half width at 90 % of a scale's logarithm, the median of its runs."""
    if scale.spread is None or scale.runs < 2:
        return student_t(math.inf, _LEVEL) * _UNKNOWN_SPREAD / math.sqrt(scale.runs)
    # The variance of a median of normal runs is pi / 2 times the mean's.
    of_median = math.sqrt(math.pi / 2) if scale.runs > 2 else 1.0
    return student_t(scale.runs - 1, _LEVEL) * of_median * scale.spread / math.sqrt(scale.runs)


def _fit(model: ScalingModel, time: float, last: float, noise: float, doublings: float) -> Fit:
    floor, part = ERRORS[model]
    error = math.hypot(floor * math.sqrt(doublings), part * math.log(time / last))
    return Fit(model, time, math.hypot(error, noise))
