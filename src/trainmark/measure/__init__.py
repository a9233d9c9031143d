"""From logs to numbers: one run's measurement, the warm-up test, statistics over runs, speedups.

The package is also the function ``trainmark.measure`` of the library (ADR 0048): it imports the standard library only.
"""

import sys
from collections.abc import Callable
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING

from trainmark.imports import attach
from trainmark.training_loop import LoopMeasurement
from trainmark.training_loop import measure as measure_loop

if TYPE_CHECKING:
    from trainmark.measure.measurement import measure_events
    from trainmark.measure.own_window import NotMeasurable
    from trainmark.measure.statistics import (
        estimate,
        expected_half_width,
        narrow_enough,
        ratio,
        runs_to_wait_for,
        scaled,
        speedup,
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
        ".statistics": (
            "estimate",
            "expected_half_width",
            "narrow_enough",
            "ratio",
            "runs_to_wait_for",
            "scaled",
            "speedup",
            "spread_of",
        ),
        ".steadiness": ("judge_steadiness",),
    },
)


class _MeasureFunction(ModuleType):
    """The type of this package: ``trainmark.measure(unit="tokens")`` calls ``training_loop.measure``."""

    def __call__(
        self,
        *,
        unit: str = "samples",
        warmup: int = 10,
        synchronize: Callable[[], object] | None = None,
        all_ranks: bool = False,
        events: str | PathLike[str] | None = None,
        quiet: bool = False,
    ) -> LoopMeasurement:
        return measure_loop(
            unit=unit,
            warmup=warmup,
            synchronize=synchronize,
            all_ranks=all_ranks,
            events=events,
            quiet=quiet,
        )

    __call__.__doc__ = measure_loop.__doc__


sys.modules[__name__].__class__ = _MeasureFunction
# help(trainmark.measure) is that of the function, whichever of the two the name refers to.
__doc__ = measure_loop.__doc__ or ""
