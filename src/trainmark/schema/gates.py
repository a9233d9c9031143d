"""The names of the gates that check a result; a suite can turn each of them off."""

from enum import StrEnum


class GateName(StrEnum):
    """A gate; its value is the code of the doubt that it raises."""

    GPU_THROTTLED = "gpu-throttled"
    CLOCK_DROPPED = "clock-dropped"
    GPU_SHARED = "gpu-shared"
    CPU_SHARED = "cpu-shared"
    RANKS_DISAGREE = "ranks-disagree"
    RANKS_UNEVEN = "ranks-uneven"
    LOSS_NOT_FINITE = "loss-not-finite"
    BATCH_DIFFERS = "batch-per-device-differs"
    TWO_LEVELS = "two-levels"
    DRIFT_OVER_RUNS = "drift-over-runs"


SPOILING = frozenset(
    {GateName.GPU_THROTTLED, GateName.CLOCK_DROPPED, GateName.GPU_SHARED, GateName.CPU_SHARED}
)
"""Doubts about a machine for which a run is repeated and excluded from its case's estimate."""
