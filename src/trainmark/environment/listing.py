"""The list of environments and their state on this machine."""

import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainmark.environment.entry import FrameworkEntry, Variant, entries
from trainmark.environment.interpreter import find
from trainmark.environment.locations import folder_of, read_stamp
from trainmark.environment.resolving import SYSTEM, state_of


class EnvironmentRow(BaseModel):
    """One environment: its state on disk (``variant``, ``python``, ``extras``), and the options for creating it.

    ``python_found`` is the version of the Python that would be used here; None if none fits. ``note`` names what else
    is needed. ``makeable`` is true if ``trainmark env create`` needs no further option.
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


def overview(home: Path, catalog: Path | None = None) -> tuple[EnvironmentRow, ...]:
    """Return one row for each framework of the catalogue, and one for the system's Python."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    system = EnvironmentRow(
        environment=SYSTEM, state="the Python in use", python=version, path=sys.executable
    )
    return (*(_row(entry, home) for entry in entries(catalog)), system)


def _row(entry: FrameworkEntry, home: Path) -> EnvironmentRow:
    folder = folder_of(home, entry.framework)
    stamp = read_stamp(folder)
    found = find(entry)
    note = None
    if found is None:
        note = f"no Python {' or '.join(entry.python)} found here"
    elif entry.placeholder is not None:
        note = f"with --wheel FILE or --index URL only: {entry.placeholder.reason}"
    return EnvironmentRow(
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
