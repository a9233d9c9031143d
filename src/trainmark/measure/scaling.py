"""Speedup and scaling efficiency: runs on many devices against the same work on one."""

from collections.abc import Mapping, Sequence

from trainmark.measure.statistics import ratio, scaled
from trainmark.words.measurement import Ratio, Speedup


def speedup(
    name: str, world_size: int, runs: Mapping[str, Sequence[float]], baseline: str | None
) -> Speedup | None:
    """Return the speedup of the case ``name`` over the case ``baseline``, both keys of ``runs``.

    ``runs`` holds every case's throughputs. Without a baseline, or when either side has no successful run,
    there is no speedup: it is not 1.0. The baseline's own is 1 by definition, and has no interval.
    """
    if baseline is None:
        return None
    quotient = ratio(runs.get(name, ()), runs.get(baseline, ()))
    if quotient is None:
        return None
    if name == baseline:
        quotient = Ratio(value=1.0, interval=None)
    return Speedup(baseline=baseline, speedup=quotient, efficiency=scaled(quotient, 1 / world_size))
