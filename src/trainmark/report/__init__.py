"""Reports: Markdown, HTML, CSV, plots and the terminal's table, in English and Chinese."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainmark.report.csvfile import render_csv, render_runs_csv
    from trainmark.report.language import Language
    from trainmark.report.terminal import render_table
    from trainmark.report.writing import render_html, render_markdown, write_plots, write_reports

__all__ = [
    "Language",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_runs_csv",
    "render_table",
    "write_plots",
    "write_reports",
]

_HOME = {
    "Language": "language",
    "render_csv": "csvfile",
    "render_html": "writing",
    "render_markdown": "writing",
    "render_runs_csv": "csvfile",
    "render_table": "terminal",
    "write_plots": "writing",
    "write_reports": "writing",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: Jinja and Altair stay out of the way to ``--help``."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
