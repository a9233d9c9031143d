"""Published figures with their sources."""

from trainmark.reference.catalog import (
    find_reference,
    load_references,
    published_sources,
    read_figures,
    select,
    select_words,
)
from trainmark.reference.model import (
    CellStatus,
    Hardware,
    Publication,
    Reference,
    Software,
    Statistic,
)

__all__ = [
    "CellStatus",
    "Hardware",
    "Publication",
    "Reference",
    "Software",
    "Statistic",
    "find_reference",
    "load_references",
    "published_sources",
    "read_figures",
    "select",
    "select_words",
]
