"""Workload cards: descriptions of training programs, and the command line of a case."""

from trainmark.workload.card import (
    Axis,
    Card,
    Combination,
    Counts,
    Gap,
    Scaling,
    Step,
    StopAfter,
    Where,
    WorkingDirectory,
)
from trainmark.workload.cards import CHECKOUT, NoCardError, Workload, Workloads, load_workloads, read_card
from trainmark.workload.command import (
    COMMIT,
    UnsupportedByCard,
    Values,
    commit_of,
    find_gap,
    matches,
    program_variables,
    program_words,
    work_of_step,
)
from trainmark.workload.image import Image, ImageBuild, Mount, Sharing
from trainmark.workload.placeholders import PLACEHOLDERS, filled, placeholders_in
from trainmark.workload.recognition import Recognised, program_files, recognise
from trainmark.workload.source import BuiltinSource, FilesSource, FolderSource, GitSource

__all__ = [
    "CHECKOUT",
    "COMMIT",
    "PLACEHOLDERS",
    "Axis",
    "BuiltinSource",
    "Card",
    "Combination",
    "Counts",
    "FilesSource",
    "FolderSource",
    "Gap",
    "GitSource",
    "Image",
    "ImageBuild",
    "Mount",
    "NoCardError",
    "Recognised",
    "Scaling",
    "Sharing",
    "Step",
    "StopAfter",
    "UnsupportedByCard",
    "Values",
    "Where",
    "WorkingDirectory",
    "Workload",
    "Workloads",
    "commit_of",
    "filled",
    "find_gap",
    "load_workloads",
    "matches",
    "placeholders_in",
    "program_files",
    "program_variables",
    "program_words",
    "read_card",
    "recognise",
    "work_of_step",
]
