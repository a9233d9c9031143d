"""The results of verifying a data set: kinds of problems, one problem, and the report."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Depth(StrEnum):
    """The depth of a verification."""

    STRUCTURE = "structure"
    """Check markers, lengths and checksums of files and records without decoding."""
    DECODE = "decode"
    """Check the structure and decode everything: finds what a decoder rejects."""


class ProblemKind(StrEnum):
    """The kinds of problems of files and records."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    UNDECODABLE = "undecodable"
    CORRUPTED = "corrupted"
    """Its checksum differs from the recorded one."""
    MISLABELLED = "mislabelled"
    EXTRA = "extra"
    """Neither the manifest nor a list names it."""
    DUPLICATE = "duplicate"
    """Another file has the same bytes, or a list names the file twice."""
    UNREADABLE = "unreadable"
    BROKEN = "broken"
    """A record whose framing is damaged."""
    BAD_INDEX = "bad-index"
    """An index that does not match the offsets of the records."""
    WRONG_COUNT = "wrong-count"
    """More or fewer shards or records than expected."""
    BAD_LIST = "bad-list"
    """A list file has lines that are not ``path label``."""


@dataclass(frozen=True, slots=True, order=True)
class DatasetProblem:
    """One problem; ``path`` is relative to the data set."""

    path: str
    kind: ProblemKind
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The checked files, bytes and lists, the limits of the verification, and the problems found.

    ``records`` counts readable records; if each sample is a file, it counts files. ``made`` is true if trainmark
    created the data set.
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
