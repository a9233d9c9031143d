"""Section on the findings of `trainmark check` about the hosts before the suite was run."""

from pydantic import ValidationError

from trainmark.report.blocks import Block, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.schema.check import CheckFinding, CheckReport, Level
from trainmark.schema.names import CHECK

_ORDER = (Level.FAILURE, Level.WARNING, Level.NOTE, Level.OK)


def section(context: Context) -> Section | None:
    """Return the section with all findings, the worst first; None if nothing was checked."""
    path, say = context.directory / CHECK, context.say
    if not path.is_file():
        return None
    title = say("check_title")
    try:
        report = CheckReport.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return Section("check", title, (Paragraph(plain(say("check_unreadable"))),), folded=True)
    lead = say(
        "check_fit" if report.fit else "check_not_fit",
        hosts=say.count("check_hosts", len(report.hosts)),
        when=report.checked.strftime("%Y-%m-%d %H:%M %Z").strip(),
    )
    blocks: list[Block] = [Paragraph(plain(lead), alert=not report.fit), _table(context, report)]
    return Section("check", title, tuple(blocks), folded=True)


def _table(context: Context, report: CheckReport) -> Table:
    say = context.say
    names = ("check_level", "check_host", "check_name", "check_found", "check_others", "check_remedy")
    found = sorted(report.findings, key=lambda finding: _ORDER.index(finding.level))
    columns = tuple(Column(say(name), numeric=False) for name in names)
    return Table("", columns, tuple(tuple(map(cell, _row(context, finding))) for finding in found))


def _row(context: Context, finding: CheckFinding) -> tuple[str, ...]:
    return (
        finding.level.value,
        context.say.joined(finding.hosts),
        finding.check,
        finding.found,
        finding.others or "",
        finding.remedy or "",
    )
