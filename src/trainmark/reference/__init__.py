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
from trainmark.words.recipe import Axis, AxisValue

__all__ = [
    "Axis",
    "AxisValue",
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
