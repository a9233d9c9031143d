"""Charts as SVG, drawn when a report is written."""

from trainmark.report.charts.drawing import Drawing, Panel

__all__ = ["Drawing", "Panel"]
