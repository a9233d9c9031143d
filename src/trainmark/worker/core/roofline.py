"""The shortest possible time of a training step, by the measured peaks of the device.

Each layer takes at least the time of its operations at the rate of a matrix product, and the time of its bytes at the
memory bandwidth; the longer one is the layer's floor, and the sum of the floors is the step's. Bytes are those of the
layer's own operands, each read or written once. Anything between layers (norms, activations, sums, pooling) is assumed
to be free, and caches to retain nothing between layers. A program that fuses everything comes close to it; one that
keeps a layer's output in a cache could be faster.
The roofline model: Williams, Waterman and Patterson, https://doi.org/10.1145/1498765.1498785.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """A layer's forward or backward pass over a rank's batch, or the update of all weights."""

    name: str
    operations: float
    moved_bytes: float


class Floor(NamedTuple):
    """The times of a step in seconds: the floor, and the times of all operations and of all bytes alone."""

    step_s: float
    operations_s: float
    bytes_s: float


def floor_of(pieces: Sequence[Piece], operations_per_s: float, bytes_per_s: float) -> Floor:
    """Return the floor of a step made of these pieces, one after the other."""
    seconds = [(piece.operations / operations_per_s, piece.moved_bytes / bytes_per_s) for piece in pieces]
    return Floor(sum(map(max, seconds)), sum(ops for ops, _ in seconds), sum(moved for _, moved in seconds))


def share_of_floor(floor: Floor | None, step_s: float) -> dict[str, object]:
    """Return the last event's ``floor``, and its share of the step (``roofline``).

    A share above 1 is possible only with a cache or a measured rate that is too low; then it is null.
    """
    if floor is None:
        return {"floor": None, "roofline": None}
    share = floor.step_s / step_s
    return {"floor": floor._asdict(), "roofline": share if share <= 1 else None}
