"""Speedup and scaling efficiency: runs on many devices against the same work on one."""

from collections.abc import Mapping

from trainmark.measure.statistics import ratio, scaled
from trainmark.schema.measurement import Estimate, Ratio, Speedup


def speedup(
    name: str, world_size: int, estimates: Mapping[str, Estimate | None], baseline: str | None
) -> Speedup | None:
    """Return the speedup of the case ``name`` over the case ``baseline``, both keys of ``estimates``.

    Without a baseline, or when either side has no successful run, the speedup is None and not 1.0. The baseline's own
    speedup is 1 by definition and has no interval.
    """
    if baseline is None:
        return None
    quotient = ratio(estimates.get(name), estimates.get(baseline))
    if quotient is None:
        return None
    if name == baseline:
        quotient = Ratio(value=1.0, interval=None)
    return Speedup(baseline=baseline, speedup=quotient, efficiency=scaled(quotient, 1 / world_size))
