"""Which environments there can be on this machine, and what there is of each."""

import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainmark.environment.entry import Entry, Variant, entries
from trainmark.environment.interpreter import find
from trainmark.environment.locations import folder_of
from trainmark.environment.resolving import SYSTEM, state_of
from trainmark.environment.stamp import read_stamp


class Row(BaseModel):
    """One environment: what is on disk of it (``variant``, ``python``, ``extras``), and what can be made.

    ``python_found`` is the version of the Python with which it would be made here; None when none fits. ``note``
    says what else is needed. ``makeable`` tells whether ``trainmark env create`` can make it without more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    state: str
    path: str
    variant: Variant | None = None
    python: str | None = None
    extras: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    extras_offered: tuple[str, ...] = ()
    lock_fits_python: tuple[str, ...] = ()
    python_found: str | None = None
    makeable: bool = False
    note: str | None = None


def overview(home: Path, catalog: Path | None = None) -> tuple[Row, ...]:
    """Return one row for each framework of the catalogue, and one for the system's own Python."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    system = Row(environment=SYSTEM, state="the Python in use", python=version, path=sys.executable)
    return (*(_row(entry, home) for entry in entries(catalog)), system)


def _row(entry: Entry, home: Path) -> Row:
    folder = folder_of(home, entry.framework)
    stamp = read_stamp(folder)
    found = find(entry)
    note = None
    if found is None:
        note = f"no Python {' or '.join(entry.python)} found here"
    elif entry.placeholder is not None:
        note = f"by --wheel FILE or --index URL only: {entry.placeholder.reason}"
    return Row(
        environment=entry.framework,
        state=str(state_of(entry, home)),
        path=str(folder),
        variant=stamp.variant if stamp else None,
        python=stamp.python_version if stamp else None,
        extras=stamp.extras if stamp else (),
        variants=tuple(entry.variants),
        extras_offered=tuple(entry.extras),
        lock_fits_python=entry.python,
        python_found=found.version if found else None,
        makeable=note is None,
        note=note,
    )
