"""The least time of a training step: what its layers must compute and move, by what the device was measured to do.

Each layer takes at least as long as its operations at the rate of a matrix product, and as its bytes at the rate at
which memory is read and written; the longer of both is its floor, and their sum is the step's. Bytes are those of the
layer's own operands, each read or written once: what lies between layers (norms, activations, sums, pooling) is taken
to cost nothing, and no cache to hold anything from one layer to the next. A program that fuses all that it can comes
near it; one that kept a layer's output in a cache could come below.
The roofline model: Williams, Waterman and Patterson, https://doi.org/10.1145/1498765.1498785.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Sequence


class Piece(NamedTuple):
    """A layer's forward or backward pass over a rank's batch, or the update of all weights."""

    name: str
    operations: float
    moved_bytes: float


class Floor(NamedTuple):
    """Seconds of a step: the least, and those of all operations and of all bytes by themselves."""

    step_s: float
    operations_s: float
    bytes_s: float


def floor_of(pieces: Sequence[Piece], operations_per_s: float, bytes_per_s: float) -> Floor:
    """Return the floor of a step made of these pieces, one after the other."""
    seconds = [(piece.operations / operations_per_s, piece.moved_bytes / bytes_per_s) for piece in pieces]
    return Floor(sum(map(max, seconds)), sum(ops for ops, _ in seconds), sum(moved for _, moved in seconds))


def share_of_floor(floor: Optional[Floor], step_s: float) -> Dict[str, object]:
    """Return what the last event says of it: ``floor``, and the share of the step that it is (``roofline``).

    A share above 1 cannot be, but by a cache or a rate that is too low: then there is none.
    """
    if floor is None:
        return {"floor": None, "roofline": None}
    share = floor.step_s / step_s
    return {"floor": floor._asdict(), "roofline": share if share <= 1 else None}
