"""Relations between numbers: ``trainmark.compare``, ``trainmark.explain`` and ``trainmark.audit``."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.api.results import Results, read_source
from trainmark.api.tables import Table
from trainmark.errors import InputError
from trainmark.printable import counted, printable

if TYPE_CHECKING:
    from trainmark.schema.comparison import ComparedCase
    from trainmark.schema.comparison import Comparison as ComparisonDocument

Source = str | os.PathLike[str] | Results

_COMPARED = ("case", "baseline", "candidate", "unit", "ratio", "ratio_low", "ratio_high", "change")
_AUDITED = ("log", "published", "verdict", "rule", "value", "deviation", "chance", "note")


class Comparison:
    """A candidate compared with its baseline case by case; ``document`` has everything that ``compare --json`` prints.

    Example::

        comparison = trainmark.compare("results/before", "results/after")
        assert comparison.holds, str(comparison)
    """

    def __init__(self, document: "ComparisonDocument") -> None:
        self.document = document

    @property
    def holds(self) -> bool:
        """True if no case is slower and none has lost its throughput."""
        return self.document.holds

    @cached_property
    def cases(self) -> Table:
        """One row a case: both medians in ``unit``, their ratio with its 95 % interval, and the ``change``."""
        rows = tuple(_compared_row(case) for case in self.document.cases)
        columns = (*_COMPARED, "against", "significance", "reason")
        return Table(columns, rows, _COMPARED)

    def __str__(self) -> str:
        """Return the result as text."""
        from trainmark.report.comparison import render_comparison

        return render_comparison(self.document)

    def __repr__(self) -> str:
        """Return a one-line description."""
        verdict = "holds" if self.holds else "does not hold"
        return f"<trainmark.Comparison of {counted(len(self.document.cases), 'case')}: {verdict}>"

    def _repr_html_(self) -> str:
        return self.cases._repr_html_()


class Explanation:
    """The differences between a run and another number, the largest known effect first.

    ``document`` is the object that ``explain --json`` prints; ``str()`` is the explanation as text.
    """

    def __init__(self, document: Mapping[str, Any], text: str) -> None:
        self.document = document
        self._text = text

    @property
    def ratio(self) -> float | None:
        """The other number over the run's; None if one of them is unknown."""
        found = self.document.get("ratio")
        return None if found is None else float(found)

    def __str__(self) -> str:
        """Return the result as text."""
        return self._text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(printable(self._text))}</pre>"


@dataclass(frozen=True, slots=True)
class Audit:
    """The verdicts on the values of a published table: one row each, with the columns of ``audit --json``."""

    table: Table
    summary: str

    @property
    def holds(self) -> bool:
        """True if every value is reproduced from its log."""
        return all(row["verdict"] == "reproduced" for row in self.table)

    def to_pandas(self) -> Any:
        """Return the verdicts as a ``pandas.DataFrame``; raise ``InputError`` if pandas is missing."""
        return self.table.to_pandas()

    def __str__(self) -> str:
        """Return the result as text."""
        return f"{self.table}\n\n{self.summary}"

    def _repr_html_(self) -> str:
        return f"{self.table._repr_html_()}<p>{escape(printable(self.summary))}</p>"


def compare(
    a: Source | Sequence[Source],
    b: Source,
    *,
    within: float | None = None,
    only: str | None = None,
    ignoring: Sequence[str] = (),
) -> Comparison:
    """Compare the results ``b`` with the baseline ``a``, or with several campaigns of one baseline.

    A source is a ``Results``, a result directory, a ``results.json`` or ``STORE#CAMPAIGN``. Differences of up to
    ``within`` (a share: 0.01 is 1 %) are no change; ``only`` selects cases, ``ignoring`` names axes on which the sides
    may differ. Raises ``InputError`` for a source that cannot be read and for an axis that no case has.

    Example::

        trainmark.compare("results/before", "results/after").holds
    """
    from trainmark.cli.compare import axes_to_ignore
    from trainmark.cli.results import selected
    from trainmark.insight import compare as compare_results

    baselines = list(a) if isinstance(a, Sequence) and not isinstance(a, str) else [a]
    sources = [*baselines, b]
    if not baselines:
        raise InputError("compare() needs a baseline: a result directory, a results.json or a Results")
    sides = [selected(_document(source), only) for source in sources]
    names = tuple(map(_name, sources))
    axes = axes_to_ignore(",".join(ignoring), sides)
    return Comparison(compare_results(sides[:-1], sides[-1], names, within, axes, None))


def explain(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str] | None = None,
    *,
    rule: str | None = None,
    device: str | None = None,
    gpus: int | None = None,
    batch: int | None = None,
) -> Explanation:
    """Explain why ``a`` has another throughput than ``b``: the differences ranked by their known effect.

    Each is a log, the folder of a run (``DIR/runs/CASE/REPEAT``), a case of a result (``DIR#CASE``) or the name of a
    published figure (``trainmark reference``); ``b`` is by default the fastest figure of the same program and hardware.
    ``rule`` computes the throughput of logs; ``device``, ``gpus`` (over all nodes) and ``batch`` (of one device) are
    what a log does not state. Raises ``InputError`` if one of them cannot be read, or no published figure fits.

    Example::

        print(trainmark.explain("mine.log", "theirs.log"))
    """
    from trainmark.cli.explain import LogFacts, explain_sides
    from trainmark.insight import render_text, to_document
    from trainmark.logs import Facts

    other = None if b is None else os.fspath(b)
    given = LogFacts(rule, device, Facts(gpus=gpus, batch_per_device=batch))
    found = explain_sides(os.fspath(a), other, given, quiet=True)
    return Explanation(to_document(found), render_text(found))


def audit(table: str | os.PathLike[str], logs: str | os.PathLike[str]) -> Audit:
    """Recompute the values of a published table (columns ``log,published[,gpus,batch,unit]``) from their logs.

    ``logs`` is the folder to which the table's paths are relative. Raises ``InputError`` for a missing folder and for
    a table without rows or columns.

    Example::

        audit = trainmark.audit("table.csv", "logs")
        audit.to_pandas().groupby("verdict").size()
    """
    from trainmark.cli.audit import audit_table, finding_document
    from trainmark.measure.rules import summarise_findings

    findings = list(audit_table(Path(table), Path(logs)))
    rows = tuple(finding_document(finding) for finding in findings)
    return Audit(Table(_AUDITED, rows, _AUDITED), "\n".join(summarise_findings(findings)))


def _document(source: Source) -> Any:
    return source.document if isinstance(source, Results) else read_source(os.fspath(source))


def _name(source: Source) -> str:
    if isinstance(source, Results):
        return str(source.directory or source.name)
    return os.fspath(source)


def _compared_row(case: "ComparedCase") -> dict[str, Any]:
    before, after = case.estimates
    interval = case.ratio.interval if case.ratio is not None else None
    return {
        "case": case.case,
        "against": case.against,
        "baseline": before.median if before is not None else None,
        "candidate": after.median if after is not None else None,
        "unit": case.unit,
        "ratio": case.ratio.value if case.ratio is not None else None,
        "ratio_low": interval.low if interval is not None else None,
        "ratio_high": interval.high if interval is not None else None,
        "change": str(case.change),
        "significance": case.significance,
        "reason": case.reason,
    }
