"""Published figures as text for a terminal: a table of many, or all details of one."""

from collections.abc import Iterable, Iterator, Sequence

from trainmark.reference.audit import CountedModel, Statement, by_table
from trainmark.reference.model import Reference
from trainmark.reference.table import PublishedTable

_HEADINGS = ("name", "value", "unit", "device", "devices", "nodes", "precision", "batch")


def render_list(references: Sequence[Reference]) -> str:
    """Return one line per figure, in columns; a cell without a number shows its outcome."""
    rows = [_HEADINGS, *(_row(reference) for reference in references)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    return "\n".join(lines) + f"\n\n{len(references)} published figures\n"


def _row(reference: Reference) -> tuple[str, ...]:
    hardware = reference.hardware
    memory = f"-{hardware.device_memory_gb}GB" if hardware.device_memory_gb else ""
    return (
        reference.id,
        reference.printed if reference.value is not None else f"({reference.status})",
        f"{reference.unit}{' per device' if reference.per_device else ''}",
        f"{hardware.device}{memory}" if hardware.device else "-",
        str(reference.devices),
        str(reference.nodes or "-"),
        reference.precision or "-",
        str(reference.batch_per_device or "-"),
    )


def render_one(reference: Reference) -> str:
    """Return all details of one figure; unknown details are left out."""
    statistic = f", {reference.statistic.replace('-', ' ')}" if reference.statistic != "not-stated" else ""
    lines = [f"{reference.id}: {reference.text}{statistic}", ""]
    lines += _block("measured", _measured(reference))
    lines += _block("hardware", reference.hardware.model_dump(exclude_none=True).items())
    lines += _block("software", reference.software.model_dump(exclude_none=True).items())
    lines += _block("recipe", reference.recipe.items())
    source = reference.source.model_dump(exclude_none=True)
    read_in = source.pop("recipe_from", ())
    source |= {"recipe from" if i == 0 else " " * i: text for i, text in enumerate(read_in)}
    lines += _block("source", source.items())
    lines += ["notes", *(f"  - {note}" for note in reference.notes)] if reference.notes else []
    return "\n".join(lines).rstrip() + "\n"


def _measured(reference: Reference) -> Iterator[tuple[str, object]]:
    yield "framework", reference.framework
    yield "model", reference.model
    yield "precision", reference.precision or "not stated"
    yield "batch_per_device", reference.batch_per_device or "not stated"
    nodes = reference.nodes
    where = "nodes not stated" if nodes is None else f"on {nodes} node{'s' if nodes > 1 else ''}"
    yield "devices", f"{reference.devices}, {where}" if nodes is None else f"{reference.devices} {where}"
    if reference.repeat is not None:
        yield "repeat", reference.repeat
    if reference.speedup is not None:
        yield "speedup", reference.speedup
    if reference.mfu is not None:
        yield "mfu", f"{reference.mfu:.2%} (as the publisher states it)"


def _block(title: str, values: Iterable[tuple[str, object]]) -> list[str]:
    cells = [(name.replace("_gb", " (GB)").replace("_", " "), value) for name, value in values]
    width = max([18, *(len(name) for name, _ in cells)])
    return [title, *(f"  {name:<{width}} {value}" for name, value in cells), ""] if cells else []


def render_audit(
    tables: Sequence[PublishedTable], statements: Sequence[Statement], counted: Sequence[CountedModel]
) -> str:
    """Return the statements about each table, then the operations per token that its rows imply."""
    found = by_table(statements)
    lines: list[str] = []
    for table in tables:
        own = found.get(table.name, [])
        lines += [f"{table.name}: {len(table.rows)} rows, {_counted(len(own), 'statement')}"]
        for statement in own:
            lines += [f"  {statement.kind.replace('-', ' ')}: {statement.case}", f"    {statement.text}"]
        models = [one for one in counted if one.table == table.name]
        if models:
            lines += [
                "  implied GFLOP per token: lowest, median and highest row; 6N + attention, causal and full"
            ]
            lines += [
                f"    {_model(one):<44} {_range(one):<24} {_convention(one)}".rstrip() for one in models
            ]
        lines += [""]
    return "\n".join(lines)


def render_page(tables: Sequence[PublishedTable], statements: Sequence[Statement]) -> str:
    """Return the statements as Markdown, with a section for each series."""
    found = by_table(statements)
    lines: list[str] = []
    for series in dict.fromkeys(table.series for table in tables):
        releases = [table for table in tables if table.series == series]
        lines += [f"## {releases[-1].source.publisher or series}", ""]
        lines += ["| table | rows | read in |", "| --- | ---: | --- |"]
        for table in releases:
            place = " ".join(filter(None, (table.source.path, table.source.commit)))
            lines += [f"| `{table.name}` | {len(table.rows)} | {place} |"]
        own = [(table, statement) for table in releases for statement in found.get(table.name, ())]
        if own:
            lines += ["", "| table | what | case | arithmetic |", "| --- | --- | --- | --- |"]
        for table, statement in own:
            kind = statement.kind.replace("-", " ")
            lines += [f"| {table.release} | {kind} | {statement.case} | {statement.text} |"]
        if not own:
            lines += ["", "Nothing in these tables contradicts itself."]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def _model(one: CountedModel) -> str:
    return one.model if one.sequence_length is None else f"{one.model}, {one.sequence_length} tokens"


def _range(one: CountedModel) -> str:
    return f"{one.low:.4g}, {one.middle:.4g}, {one.high:.4g}"


def _convention(one: CountedModel) -> str:
    """Return 6N + attention with the variant that the numbers show; empty if the model's shape is unknown."""
    if one.causal is None or one.full is None:
        return ""
    which = "neither" if one.counts == "other" else one.counts
    return f"{one.causal:.4g}, {one.full:.4g}: {which}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
