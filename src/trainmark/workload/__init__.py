"""Workload cards: what a training program is, and how a case becomes its command."""

from trainmark.workload.card import Axis, BuiltinSource, Card, FolderSource, Launcher
from trainmark.workload.cards import NoCardError, Workload, Workloads, load_workloads, read_card
from trainmark.workload.command import UnsupportedByCard, Values, program_words

__all__ = [
    "Axis",
    "BuiltinSource",
    "Card",
    "FolderSource",
    "Launcher",
    "NoCardError",
    "UnsupportedByCard",
    "Values",
    "Workload",
    "Workloads",
    "load_workloads",
    "program_words",
    "read_card",
]
