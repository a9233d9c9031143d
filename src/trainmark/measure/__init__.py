"""From logs to numbers: one run's measurement, the warm-up test, statistics over runs, speedups."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.measure.measurement import measure_events
    from trainmark.measure.own_window import NotMeasurable
    from trainmark.measure.scaling import speedup
    from trainmark.measure.statistics import (
        estimate,
        expected_half_width,
        narrow_enough,
        ratio,
        runs_to_wait_for,
        scaled,
        spread_of,
    )
    from trainmark.measure.steadiness import judge_steadiness

__all__ = [
    "NotMeasurable",
    "estimate",
    "expected_half_width",
    "judge_steadiness",
    "measure_events",
    "narrow_enough",
    "ratio",
    "runs_to_wait_for",
    "scaled",
    "speedup",
    "spread_of",
]

__getattr__ = attach(
    __name__,
    {
        ".measurement": ("measure_events",),
        ".own_window": ("NotMeasurable",),
        ".scaling": ("speedup",),
        ".statistics": (
            "estimate",
            "expected_half_width",
            "narrow_enough",
            "ratio",
            "runs_to_wait_for",
            "scaled",
            "spread_of",
        ),
        ".steadiness": ("judge_steadiness",),
    },
)
