"""Published figures as text for a terminal: a table of many, or all details of one."""

from collections.abc import Iterable, Iterator, Sequence

from trainmark.reference.model import Reference

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
        reference.unit,
        f"{hardware.device}{memory}" if hardware.device else "-",
        str(reference.devices),
        str(reference.nodes),
        reference.precision or "-",
        str(reference.batch_per_device or "-"),
    )


def render_one(reference: Reference) -> str:
    """Return all details of one figure; unknown details are left out."""
    value = (
        f"{reference.printed} {reference.unit}" if reference.value is not None else f"({reference.status})"
    )
    statistic = f", {reference.statistic.replace('-', ' ')}" if reference.statistic != "not-stated" else ""
    lines = [f"{reference.id}: {value}{statistic}", ""]
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
    yield "devices", f"{reference.devices} on {reference.nodes} node{'s' if reference.nodes > 1 else ''}"
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
