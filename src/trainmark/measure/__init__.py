"""From logs to numbers: one run's measurement, the warm-up test, statistics over runs, speedups."""

from typing import TYPE_CHECKING

from trainmark.lazy import lazy

if TYPE_CHECKING:
    from trainmark.measure.measurement import measure_events
    from trainmark.measure.own_window import NotMeasurable
    from trainmark.measure.scaling import speedup
    from trainmark.measure.statistics import estimate, ratio, scaled
    from trainmark.measure.steadiness import judge_steadiness

__all__ = [
    "NotMeasurable",
    "estimate",
    "judge_steadiness",
    "measure_events",
    "ratio",
    "scaled",
    "speedup",
]

__getattr__ = lazy(__name__)
