"""Energy of a run's devices, for its window and for one unit of work."""

from enum import StrEnum

from pydantic import PositiveFloat

from trainmark.schema.frozen import Frozen
from trainmark.schema.measurement import Interval, Ratio


class EnergySource(StrEnum):
    """The counters that the energy was read from."""

    GPUS = "gpus"
    """NVML's counters of the GPUs that worked for the run."""
    CPU_PACKAGES = "cpu-packages"
    """The kernel's RAPL counters of all processor packages: other processes of the machine are included."""


class EnergyUse(Frozen):
    """The energy of one run.

    ``joules`` are those of all nodes in the part of the window that the counters cover, ``watts`` the mean power in it.
    ``per_unit_j`` is the power over the throughput: joules for one ``unit`` of work. ``devices`` counts the GPUs, or
    the nodes whose processors were counted.
    """

    source: EnergySource
    joules: PositiveFloat
    watts: PositiveFloat
    per_unit_j: PositiveFloat
    unit: str
    devices: int


class EnergyFinding(Frozen):
    """The energy of a case for one ``unit`` of work: the median over its runs, with its 95 % interval if there is one.

    ``watts`` is the median of the mean powers. All runs have the same ``source``.
    """

    case: str
    source: EnergySource
    runs: int
    unit: str
    per_unit_j: PositiveFloat
    interval: Interval | None
    watts: PositiveFloat
    devices: int


class EnergyRatio(Frozen):
    """The joules of one unit of work in a candidate over those in its baseline."""

    unit: str
    source: EnergySource
    joules: tuple[float, float]
    ratio: Ratio
