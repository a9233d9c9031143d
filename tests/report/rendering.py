"""The reports of the samples, each composed and rendered once for all tests that read it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import sample_results as sample

from trainmark.report import Language, render_html
from trainmark.report.blocks import Chart, Report
from trainmark.report.writing import compose
from trainmark.schema.results import Results

Example = Callable[[], Results]
"""A function of ``sample_results``; the same one always is the same report."""


class Rendering:
    """Renders the samples into folders below ``folder``; what is returned is shared, and not to be changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._results = cache(self._written)
        self.html = cache(self._html)
        self.report = cache(self._report)

    def charts(self, example: Example, language: Language = Language.EN) -> dict[str, Chart]:
        """Return the charts of a report, by name."""
        return {chart.name: chart for chart in self.report(example, language).charts}

    def _html(self, example: Example, language: Language = Language.EN) -> str:
        return render_html(*self._results(example), language)

    def _report(self, example: Example, language: Language = Language.EN) -> Report:
        return compose(*self._results(example), language)

    def _written(self, example: Example) -> tuple[Results, Path]:
        results, folder = example(), self._folder / example.__name__
        sample.write_runs(folder, results)
        return results, folder
