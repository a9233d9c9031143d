"""Reports: Markdown, HTML, CSV, charts and the table for a terminal, in English and Chinese."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.report.csvfile import render_csv, render_runs_csv
    from trainmark.report.language import Language
    from trainmark.report.terminal import render_table
    from trainmark.report.time_charts import history_chart
    from trainmark.report.writing import render_html, render_markdown, write_plots, write_reports

__all__ = [
    "Language",
    "history_chart",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_runs_csv",
    "render_table",
    "write_plots",
    "write_reports",
]

__getattr__ = attach(
    __name__,
    {
        ".time_charts": ("history_chart",),
        ".csvfile": ("render_csv", "render_runs_csv"),
        ".language": ("Language",),
        ".terminal": ("render_table",),
        ".writing": ("render_html", "render_markdown", "write_plots", "write_reports"),
    },
)
