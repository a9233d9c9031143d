"""The contents of an archive of results, and what its verification found."""

from datetime import datetime
from typing import Literal

from trainmark.schema.frozen import Frozen

SCHEMA: Literal["trainmark.archive/1"] = "trainmark.archive/1"


class ArchivedFile(Frozen):
    """A file of an archive: its ``path`` with ``/``, its size in bytes, and its digest (``sha256:…``)."""

    path: str
    size: int
    digest: str


class ArchiveContents(Frozen):
    """``ARCHIVE.json``, the first file of an archive. ``cards`` are the paths of the suite's cards in the archive."""

    schema_name: Literal["trainmark.archive/1"] = SCHEMA
    trainmark: str
    created: datetime
    suite: str
    command: str | None
    files: tuple[ArchivedFile, ...]
    cards: tuple[str, ...] = ()


class Verification(Frozen):
    """The result of a verification; ``problems`` are sentences, empty if everything agrees.

    ``analysed`` counts the runs whose number was computed anew from their logs; ``reason`` says why none was.
    """

    archive: str
    digest: str
    suite: str
    files: int
    cases: int
    analysed: int
    reason: str | None
    problems: tuple[str, ...]
