"""Section on the energy of each case for one unit of work, by counters over the window."""

from trainmark.measure.energy import joules_text
from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.schema.energy import EnergyFinding
from trainmark.schema.results import CaseResult


def section(context: Context) -> Section | None:
    """Return the section; None if no case has an energy."""
    by_case = {found.case: found for found in context.findings.energy}
    found = [(case, by_case[case.id]) for case in context.results.cases if case.id in by_case]
    if not found:
        return None
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_joules")),
        Column(say("column_watts")),
        Column(say("column_energy_of"), numeric=False),
    )
    rows = tuple(_row(context, case, energy) for case, energy in found)
    return Section(
        "energy", say("energy_title"), (Paragraph(plain(say("energy_caption"))), Table("", columns, rows))
    )


def _row(context: Context, case: CaseResult, found: EnergyFinding) -> tuple[Cell, ...]:
    return (
        cell(context.axes.label(case.case)),
        energy_cell(found),
        cell(f"{found.watts:.0f} W"),
        cell(context.say(f"energy_{found.source.value.replace('-', '_')}", n=found.devices)),
    )


def energy_cell(found: EnergyFinding | None) -> Cell:
    """Return the joules of one unit of work with their interval; a dash where they were not measured."""
    if found is None:
        return cell("-")
    bounds = found.interval
    detail = "" if bounds is None else f"[{joules_text(bounds.low)}, {joules_text(bounds.high)}]"
    return cell(f"{joules_text(found.per_unit_j)} / {found.unit}", detail)
