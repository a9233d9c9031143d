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
    Hardware,
    Peak,
    Reference,
    Software,
    Source,
    Statistic,
    Status,
)

__all__ = [
    "Hardware",
    "Peak",
    "Reference",
    "Software",
    "Source",
    "Statistic",
    "Status",
    "find_peak",
    "find_reference",
    "load_peaks",
    "load_references",
    "read_figures",
    "select",
]
