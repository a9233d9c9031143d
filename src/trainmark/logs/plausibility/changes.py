"""Detection of a lasting change of a run's pace: two steady parts of different speed."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainmark.logs.columns import Floats, median

_DIFFERS = 0.1
"""Smallest relative difference between the paces of two parts that counts as a change."""
_SPREADS = 6.0
_MAD = 1.4826
_FEWEST = 3
"""Fewest chunks in each part, which also has at least a tenth of all chunks."""
_LEAST_SHARE = 0.1


class Change(NamedTuple):
    """A change of pace: from ``record`` on, a unit of work takes ``factor`` times as long as before."""

    record: int
    factor: float


class Chunk(NamedTuple):
    """Neighbouring intervals, the first up to ``record``: their seconds and their work (steps or samples)."""

    record: int
    seconds: float
    work: float


def change_of_pace(chunks: Sequence[Chunk]) -> Change | None:
    """Return the lasting change of pace, or ``None``.

    The split minimises the squared deviations of the logarithms of the chunks' paces; the spread of each part must be
    small compared with the difference. Chunks of zero duration (coarse clock) are merged with their neighbours.
    """
    while any(chunk.seconds <= 0 for chunk in chunks) and len(chunks) > 4 * _FEWEST:
        chunks = [
            Chunk(pair[0].record, sum(c.seconds for c in pair), sum(c.work for c in pair))
            for pair in (chunks[at : at + 2] for at in range(0, len(chunks), 2))
        ]
    fewest = max(_FEWEST, math.ceil(_LEAST_SHARE * len(chunks)))
    if len(chunks) < 2 * fewest or any(chunk.seconds <= 0 or chunk.work <= 0 for chunk in chunks):
        return None
    logs = np.log([chunk.seconds / chunk.work for chunk in chunks])
    at = _best_split(logs, fewest)
    before, after = logs[:at], logs[at:]
    step = median(after) - median(before)
    if abs(step) <= np.log1p(_DIFFERS) or abs(step) <= _SPREADS * max(_spread(before), _spread(after)):
        return None
    return Change(chunks[at].record, float(np.exp(step)))


def _best_split(values: Floats, fewest: int) -> int:
    size = np.arange(1, len(values))
    left = np.cumsum(values)[:-1]
    right = values.sum() - left
    gain = left**2 / size + right**2 / (len(values) - size)
    gain[: fewest - 1] = gain[len(gain) - fewest + 1 :] = -np.inf
    return int(gain.argmax()) + 1


def _spread(values: Floats) -> float:
    return _MAD * median(np.abs(values - median(values)))
