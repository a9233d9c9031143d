"""What a verification finds: kinds of problems, one finding, and the report of all."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Depth(StrEnum):
    """How far a file is read to tell whether it is whole."""

    STRUCTURE = "structure"
    """What can be told without decoding: that a file's or a record's own marks are where they should be."""
    DECODE = "decode"
    """The structure, and then all that a decoder makes of it: finds what a decoder refuses."""


class ProblemKind(StrEnum):
    """What can be wrong with a file of a data set, or the records in it."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    UNDECODABLE = "undecodable"
    CORRUPTED = "corrupted"
    """Its checksum is not the one on record."""
    MISLABELLED = "mislabelled"
    EXTRA = "extra"
    """Neither the manifest nor a list names it."""
    DUPLICATE = "duplicate"
    """The same bytes lie under another name too, or a list names the file twice."""
    UNREADABLE = "unreadable"
    BROKEN = "broken"
    """A record whose framing is damaged."""
    BAD_INDEX = "bad-index"
    """An index that does not say where the records of its file lie."""
    WRONG_COUNT = "wrong-count"
    """More or fewer shards or records than are announced."""
    BAD_LIST = "bad-list"
    """A list file has lines that are not ``path label``."""


@dataclass(frozen=True, slots=True, order=True)
class DatasetProblem:
    """One finding; ``path`` is relative to the data set."""

    path: str
    kind: ProblemKind
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was looked at (files, their bytes, the lists), what could not be, and what was found.

    ``records`` are those that could be read; where each sample is a file, the files. ``made``: by trainmark.
    """

    directory: Path
    form: str
    made: bool
    depth: Depth
    files: int
    records: int
    bytes: int
    lists: tuple[str, ...]
    limits: tuple[str, ...]
    problems: tuple[DatasetProblem, ...]
