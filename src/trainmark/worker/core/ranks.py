"""The ranks of a run: this base class is for a single rank; frameworks subclass it for several."""

from collections.abc import Sequence

from .place import Place


class Ranks:
    """A single rank; for several ranks, subclasses use a framework's collectives for the same methods."""

    backend: str | None = None
    """The name of the ranks' collectives; None for a single rank."""

    def __init__(self, place: Place) -> None:
        """Store this rank's place."""
        self.place = place

    def counted(self) -> int:
        """Return the framework's own number of ranks."""
        return 1

    def barrier(self) -> None:
        """Wait for every rank."""

    def gather(self, values: Sequence[int]) -> list[list[int]]:
        """Return every rank's 64-bit values, by rank. All ranks must call it."""
        return [list(values)]

    def leave(self) -> None:
        """Leave at the same time, because a rank that leaves early would look lost to the others."""
