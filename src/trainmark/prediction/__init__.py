"""Predicting throughput at more devices than were measured: weak and strong scaling, intervals and refusals.

Names are loaded at first use, because the command line imports this package for each verb.
"""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.prediction.forecast import LEVEL, predict, predict_series
    from trainmark.prediction.render import render_prediction
    from trainmark.prediction.scales import (
        Scale,
        ScaleSeries,
        series_from_references,
        series_from_results,
        with_hosts,
    )

__all__ = [
    "LEVEL",
    "Scale",
    "ScaleSeries",
    "predict",
    "predict_series",
    "render_prediction",
    "series_from_references",
    "series_from_results",
    "with_hosts",
]

__getattr__ = attach(
    __name__,
    {
        ".forecast": ("LEVEL", "predict", "predict_series"),
        ".render": ("render_prediction",),
        ".scales": ("Scale", "ScaleSeries", "series_from_references", "series_from_results", "with_hosts"),
    },
)
