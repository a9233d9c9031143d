"""Predicting throughput at more devices than were measured: weak and strong scaling, intervals and refusals.

Names are loaded at first use, because the command line imports this package for each verb.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.prediction.forecast import LEVEL, predict, predict_series
    from trainmark.prediction.other_device import (
        DeviceFigure,
        figures_of_references,
        figures_of_results,
        published_error,
        render_what_if,
        what_if,
    )
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
    "DeviceFigure",
    "Scale",
    "ScaleSeries",
    "figures_of_references",
    "figures_of_results",
    "predict",
    "predict_series",
    "published_error",
    "render_prediction",
    "render_what_if",
    "series_from_references",
    "series_from_results",
    "what_if",
    "with_hosts",
]

__getattr__ = attach(
    __name__,
    {
        ".forecast": ("LEVEL", "predict", "predict_series"),
        ".render": ("render_prediction",),
        ".scales": ("Scale", "ScaleSeries", "series_from_references", "series_from_results", "with_hosts"),
        ".other_device": (
            "DeviceFigure",
            "figures_of_references",
            "figures_of_results",
            "published_error",
            "render_what_if",
            "what_if",
        ),
    },
)
