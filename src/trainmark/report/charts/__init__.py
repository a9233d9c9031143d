"""Charts as Vega-Lite specifications, built with Altair, and their rendering to SVG."""

from trainmark.report.charts.theme import on_white, svg

__all__ = ["on_white", "svg"]
