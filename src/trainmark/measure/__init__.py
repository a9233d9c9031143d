"""From logs to numbers: one run's measurement, the warm-up test, statistics over runs, speedups."""

from trainmark.measure.measurement import (
    About,
    Measurement,
    StepTimes,
    Suspicion,
    measure_events,
)
from trainmark.measure.own_window import NotMeasurable
from trainmark.measure.scaling import Speedup, speedup
from trainmark.measure.statistics import Estimate, Interval, IntervalMethod, Ratio, estimate, ratio, scaled
from trainmark.measure.steadiness import Steadiness, judge_steadiness

__all__ = [
    "About",
    "Estimate",
    "Interval",
    "IntervalMethod",
    "Measurement",
    "NotMeasurable",
    "Ratio",
    "Speedup",
    "Steadiness",
    "StepTimes",
    "Suspicion",
    "estimate",
    "judge_steadiness",
    "measure_events",
    "ratio",
    "scaled",
    "speedup",
]
