"""The page of published figures of the models that a site has results of, as their publishers print them."""

from collections.abc import Collection

from trainmark.measure.device_peaks import plain as folded
from trainmark.reference import Reference, load_references
from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.language import Language, catalogue


def reference_sections(models: Collection[str], language: Language) -> tuple[Section, ...]:
    """Return a section for each of ``models`` with published figures, or one that says that there are none."""
    say = catalogue(language)
    wanted = {folded(model): model for model in models}
    found: dict[str, list[Reference]] = {}
    for reference in load_references():
        if (model := wanted.get(folded(reference.model))) is not None:
            found.setdefault(model, []).append(reference)
    columns = (
        Column(say("published_name"), numeric=False),
        Column(say("column_value")),
        Column(say("column_unit"), numeric=False),
        Column(say("aspect_device"), numeric=False),
        Column(say("aspect_devices")),
        Column(say("aspect_precision"), numeric=False),
        Column(say("aspect_batch")),
        Column(say("published_by"), numeric=False),
    )
    if not found:
        return (Section("none", say("menu_references"), (Paragraph(plain(say("no_references"))),)),)
    return tuple(
        Section(
            f"model-{number}",
            model,
            (Table("", columns, tuple(_row(one) for one in figures), (say("published_note"),)),),
        )
        for number, (model, figures) in enumerate(sorted(found.items()))
    )


def _row(one: Reference) -> tuple[Cell, ...]:
    memory = f" {one.hardware.device_memory_gb} GB" if one.hardware.device_memory_gb else ""
    return (
        cell(one.id),
        cell(one.printed if one.value is not None else f"({one.status})"),
        cell(one.unit),
        cell(f"{one.hardware.device or '-'}{memory}"),
        cell(str(one.devices)),
        cell(one.precision.value if one.precision else "-"),
        cell(str(one.batch_per_device or "-")),
        cell(one.source.publisher or one.source.document),
    )
