"""What every section is written from: the results, their folder, the language, and what varies among the cases."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from trainmark.insight import judged
from trainmark.report.axes import Axes
from trainmark.report.blocks import Span
from trainmark.report.language import Catalogue, Language, catalogue
from trainmark.store import CaseResult, Results, RunResult
from trainmark.words.findings import Findings


@dataclass(frozen=True, slots=True)
class Context:
    """``findings`` are those of ``results``, ``doubted`` the ids of the cases whose number is in doubt by them.

    ``base`` leads from the report's folder to the results' folder: empty, or a path that ends in ``/``.
    """

    results: Results
    findings: Findings
    doubted: frozenset[str]
    directory: Path
    say: Catalogue
    axes: Axes
    base: str = ""

    def link(self, path: str, text: str) -> tuple[Span, ...]:
        """Return a link to a file of the results' folder, or the bare text when the file is not there."""
        if not (self.directory / path).is_file():
            return (Span(text),)
        return (Span(text, href=quote(self.base + path)),)

    def log(self, run: RunResult, text: str) -> tuple[Span, ...]:
        """Return a link to what the run printed."""
        return self.link(f"{run.directory}/train.log", text)

    def runs(self) -> list[tuple[CaseResult, RunResult]]:
        """Return every run, with its case."""
        return [(case, run) for case in self.results.cases for run in case.runs]


def context(results: Results, directory: Path, language: Language, base: str = "") -> Context:
    """Return the context of a report in ``language``."""
    results = judged(results)
    assert results.findings is not None
    doubted = frozenset(doubt.case for doubt in results.findings.doubts)
    axes = Axes.of(results.cases)
    return Context(results, results.findings, doubted, directory, catalogue(language), axes, base)
