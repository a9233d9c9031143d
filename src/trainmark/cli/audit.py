"""``trainmark audit``: check published values against the logs they were computed from."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trainmark.measure.rules import AuditFinding

app = typer.Typer(name="audit", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def audit(
    table: Annotated[
        Path,
        typer.Argument(metavar="TABLE.csv", help="A table with the columns log,published[,gpus,batch,unit]."),
    ],
    logs: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="The folder that contains the logs; paths in the table are relative to it."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per row, one per line.")
    ] = False,
) -> None:
    """Recompute published values from their logs, by the publishers' own rules and by conventional ones.

    Exit code 1: a value is not reproduced, or its log cannot be read.
    """
    from trainmark.insight import recipe_differences
    from trainmark.measure.rules import AuditVerdict, summarise_findings

    findings: list[AuditFinding] = []
    for finding in audit_table(table, logs):
        findings.append(finding)
        if as_json:
            sys.stdout.write(
                json.dumps(finding_document(finding), ensure_ascii=False, allow_nan=False) + "\n"
            )
    read = {logs / finding.claim.log: finding.facts for finding in findings if finding.facts is not None}
    summary = "\n".join([*summarise_findings(findings), *recipe_differences(read.items())]) + "\n"
    if as_json:
        sys.stderr.write(summary)
    else:
        sys.stdout.write(_rendered(findings) + "\n" + summary)
    raise typer.Exit(0 if all(finding.verdict is AuditVerdict.REPRODUCED for finding in findings) else 1)


def audit_table(table: Path, logs: Path) -> "Iterator[AuditFinding]":
    """Yield the finding on each row of a table; raise ``InputError`` for an empty table and a missing folder."""
    from trainmark.errors import InputError
    from trainmark.measure.rules import audit as audit_claims
    from trainmark.measure.rules import read_claims

    claims = read_claims(table)
    if not claims:
        raise InputError(f"{table}: the table has no rows")
    if not logs.is_dir():
        raise InputError(f"{logs}: no such folder (--logs)")
    yield from audit_claims(claims, logs)


def finding_document(finding: "AuditFinding") -> dict[str, Any]:
    """Return a finding as the object that ``--json`` prints."""
    from trainmark.measure.rules.claims import parse_published

    published = parse_published(finding.claim.published)
    return {
        "log": finding.claim.log,
        "published": float(published) if published is not None else finding.claim.published or None,
        "verdict": finding.verdict,
        "rule": finding.rule,
        "value": finding.value,
        "deviation": finding.deviation,
        "chance": finding.chance,
        "note": finding.note,
    }


def _rendered(findings: "list[AuditFinding]") -> str:
    from trainmark.printable import table

    headings = ("log", "published", "verdict", "rule", "value", "deviation", "chance")
    rows = [
        [
            finding.claim.log,
            finding.claim.published or "-",
            finding.verdict.value,
            finding.rule or "-",
            "-" if finding.value is None else f"{finding.value:.10g}",
            "-" if finding.deviation is None else f"{finding.deviation:+.2%}",
            "-" if finding.chance is None else f"{finding.chance:.2g}",
        ]
        for finding in findings
    ]
    notes = [f"{finding.claim.log}: {finding.note}" for finding in findings if finding.note]
    return table(headings, rows) + "".join(f"{note}\n" for note in notes)
