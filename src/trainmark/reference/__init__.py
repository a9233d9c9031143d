"""Published figures with their sources, and the peak rates of hardware."""

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
