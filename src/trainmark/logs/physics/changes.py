"""Where the pace of a run changes for good: two parts, each steady, that are not equally fast."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.logs.columns import Floats

_DIFFERS = 0.1
"""Parts whose paces differ by less are one run."""
_SPREADS = 6.0
_MAD = 1.4826
_FEWEST = 3
"""Medians in each part; at least a tenth of all besides."""
_LEAST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Change:
    """From ``record`` on a unit of work takes ``factor`` times as long as before."""

    record: int
    factor: float


def change_of_pace(chunks: Sequence[tuple[float, float]]) -> Change | None:
    """Return where the pace changes for good; ``None`` where it does not.

    ``chunks`` are (record, seconds for a unit of work) of neighbouring stretches. The parts are those that have the
    least squares (of logarithms); each has to be steady beside what they differ by.
    """
    records, paces = (
        (np.array(column) for column in zip(*chunks, strict=True)) if chunks else (None, np.empty(0))
    )
    fewest = max(_FEWEST, int(np.ceil(_LEAST_SHARE * len(paces))))
    if records is None or len(paces) < 2 * fewest or not (paces > 0).all():
        return None
    logs = np.log(paces)
    at = _best_split(logs, fewest)
    before, after = logs[:at], logs[at:]
    step = float(np.median(after) - np.median(before))
    if abs(step) <= np.log1p(_DIFFERS) or abs(step) <= _SPREADS * max(_spread(before), _spread(after)):
        return None
    return Change(int(records[at]) + 1, float(np.exp(step)))


def _best_split(values: Floats, fewest: int) -> int:
    size = np.arange(1, len(values))
    left = np.cumsum(values)[:-1]
    right = values.sum() - left
    gain = left**2 / size + right**2 / (len(values) - size)
    gain[: fewest - 1] = gain[len(gain) - fewest + 1 :] = -np.inf
    return int(gain.argmax()) + 1


def _spread(values: Floats) -> float:
    return _MAD * float(np.median(np.abs(values - np.median(values))))
