"""Published figures with their sources."""

from trainmark.reference.catalog import (
    find_reference,
    load_references,
    published_sources,
    read_figures,
    select,
    select_words,
)
from trainmark.reference.model import CellStatus, Reference, Statistic

__all__ = [
    "CellStatus",
    "Reference",
    "Statistic",
    "find_reference",
    "load_references",
    "published_sources",
    "read_figures",
    "select",
    "select_words",
]
