"""All ranks of a run. A rank on its own is here; a framework that has met others subclasses it."""

from __future__ import annotations

from typing import List, Optional, Sequence

from .place import Place


class Ranks:
    """The lone rank; with others, a framework's own collectives stand behind the same methods."""

    backend: Optional[str] = None
    """What the ranks talk through; None where there is nobody to talk to."""

    def __init__(self, place: Place) -> None:
        """Take this rank's place."""
        self.place = place

    def counted(self) -> int:
        """Return how many ranks the framework itself counts."""
        return 1

    def barrier(self) -> None:
        """Wait for every rank."""

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's 64-bit values, by rank. All ranks call it."""
        return [list(values)]

    def leave(self) -> None:
        """Leave together: a rank that is gone early would look lost to the others."""
