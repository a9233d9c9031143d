"""Workload cards: what a training program is, and how a case becomes its command."""

from trainmark.workload.card import Axis, BuiltinSource, Card, DataFormat, FolderSource, Gap, Launcher
from trainmark.workload.cards import NoCardError, Workload, Workloads, load_workloads, read_card
from trainmark.workload.command import UnsupportedByCard, Values, find_gap, program_words

__all__ = [
    "Axis",
    "BuiltinSource",
    "Card",
    "DataFormat",
    "FolderSource",
    "Gap",
    "Launcher",
    "NoCardError",
    "UnsupportedByCard",
    "Values",
    "Workload",
    "Workloads",
    "find_gap",
    "load_workloads",
    "program_words",
    "read_card",
]
