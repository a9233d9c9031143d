"""Published figures with provenance, and what hardware can do at most."""

from trainmark.reference.catalog import (
    find_peak,
    find_reference,
    load_peaks,
    load_references,
    read_figures,
    select,
)
from trainmark.reference.model import (
    CellStatus,
    Hardware,
    Peak,
    Publication,
    Reference,
    Software,
    Statistic,
)

__all__ = [
    "CellStatus",
    "Hardware",
    "Peak",
    "Publication",
    "Reference",
    "Software",
    "Statistic",
    "find_peak",
    "find_reference",
    "load_peaks",
    "load_references",
    "read_figures",
    "select",
]
