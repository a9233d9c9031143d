"""Charts as Vega-Lite specifications, built with Altair, and their rendering to SVG."""

from trainmark.report.charts.theme import missing_packages, on_white, svg

__all__ = ["missing_packages", "on_white", "svg"]
