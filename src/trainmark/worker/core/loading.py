"""The samples that the ranks' loaders made in the window, and a check that the window counts no earlier ones."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from .queues import UNCOUNTED
from .task import Verified

TOLERANCE, NAMED = 0.02, 10
"""The share of the window's samples that may have been made before it; the undecodable files that are named."""


class RankLoading(NamedTuple):
    """One rank's loader, as whole numbers, so that ranks can exchange it.

    ``ahead_thousandths`` of a batch can be in flight. The loader's made samples (or ``UNCOUNTED``) and taken batches
    are recorded after the first step, at the window's start and at its end. ``waited_us`` is the window's wait for the
    loader, ``window_us`` its length.
    """

    ahead_thousandths: int
    made_at_first: int
    taken_at_first: int
    made_at_begin: int
    taken_at_begin: int
    made_at_end: int
    taken_at_end: int
    waited_us: int
    window_us: int
    batch: int
    uncounted: int = 0

    @property
    def consumed(self) -> int:
        """Return the samples that were taken in the window."""
        return (self.taken_at_end - self.taken_at_begin) * self.batch

    @property
    def produced(self) -> int | None:
        """Return the samples that were made in the window."""
        return None if self.made_at_end == UNCOUNTED else self.made_at_end - self.made_at_begin

    @property
    def in_flight(self) -> list[float | None]:
        """Return the batches made and not yet taken: after the first step, at the window's begin, at its end."""
        states = zip(self[1:7:2], self[2:7:2])
        return [None if made == UNCOUNTED else made / self.batch - taken for made, taken in states]

    @property
    def waited(self) -> bool:
        """Return whether the window waited for the loader."""
        return self.waited_us > TOLERANCE * self.window_us

    @property
    def drained(self) -> bool:
        """Return whether more than ``TOLERANCE`` of the window's samples had been made before it.

        One batch is not a sign of this: at its end the window has just taken one, which a loader that was waiting for
        room has only started to replace. So a queue that is full except for one batch raises no doubt, if no step
        waited for it.
        """
        made, (full, _, left) = self.produced, self.in_flight
        if made is None or full is None or left is None or self.consumed - made <= TOLERANCE * self.consumed:
            return False
        return left < full - 1 or self.waited

    @property
    def may_be_before(self) -> float:
        """Return the number of the window's samples that may have been made before it without being counted."""
        return self.uncounted if self.produced is not None else self.ahead_thousandths / 1000 * self.batch


def tell_unreadable(names: list[str], name: str, why: str) -> None:
    """Add a file that could not be decoded to ``names``, and print the reason for the first few."""
    names.append(name)
    if len(names) <= NAMED:
        print(f"trainmark-worker: {name} cannot be decoded: {why}", file=sys.stderr, flush=True)


def check_decoding(counts: Sequence[int], names: Sequence[str] | None) -> Verified:
    """Report the files that could not be decoded, and doubt a run with any.

    ``counts`` are by rank; ``names`` are from rank 0, None if such a file ends the run.
    """
    if names is None:
        return Verified()
    found = Verified({"unreadable": {"files": list(counts), "first": list(dict.fromkeys(names))[:NAMED]}})
    if any(counts):
        first = f", {names[0]} first" if names else ""
        found.doubt(
            "samples-unreadable",
            f"{sum(counts)} of the samples could not be decoded{first}: black pictures were trained on in their place. "
            "Find them by: trainmark data verify.",
        )
    return found


def check_queues(ranks: Sequence[RankLoading]) -> Verified:
    """Report what the ranks' loaders did, and doubt a window whose samples were, or may have been, loaded before it.

    ``produced`` and ``consumed`` are samples in the window; values in flight are in batches. Uncounted values are null.
    """
    if not ranks:
        return Verified({"loading": None})
    first, begin, end = zip(*(rank.in_flight for rank in ranks))
    loading = {
        "ahead_batches": [rank.ahead_thousandths / 1000 for rank in ranks],
        "produced": [rank.produced for rank in ranks],
        "consumed": [rank.consumed for rank in ranks],
        "in_flight_after_first_step": list(first),
        "in_flight_at_begin": list(begin),
        "in_flight_at_end": list(end),
        "waited_s": [rank.waited_us / 1e6 for rank in ranks],
    }
    found = Verified({"loading": loading})
    for index, rank in enumerate(ranks):
        of = f"Rank {index}" if len(ranks) > 1 else "The run"
        if rank.drained:
            found.doubt(
                "queue-drained",
                f"{of} trained on {rank.consumed} samples in the window, and its loader made {rank.produced} in it: "
                "the rest had been loaded before, so this is not the loader's throughput. Measure more steps.",
            )
            break
        if rank.waited and rank.may_be_before > TOLERANCE * rank.consumed:
            found.doubt(
                "queue-unknown",
                f"{of} waited for its loader, and what that made in the window cannot be counted: "
                f"{rank.may_be_before:g} of {rank.consumed} samples may have been loaded before it. Measure more "
                "steps.",
            )
            break
    return found
