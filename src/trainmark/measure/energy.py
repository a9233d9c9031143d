"""Joules for one unit of work, by counters over the window: NVML's of the GPUs, or the kernel's of the processors.

The power over the covered part of the window is divided by the throughput of the whole window, so that a window that
the counters cover only in part needs no other number of units. A counter that was reset, or that a GPU of the run
lacks, gives no energy at all: a part of it would look like a saving.
"""

from collections.abc import Sequence

from trainmark.measure.gpus import gpus_of, working_gpus
from trainmark.measure.statistics import estimate
from trainmark.schema.case import Case, Device
from trainmark.schema.energy import EnergyFinding, EnergySource, EnergyUse
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import Measurement
from trainmark.schema.telemetry import GpuSummary, TelemetrySummary


def energy_of(
    case: Case,
    device: str | None,
    measurement: Measurement | None,
    telemetry: Sequence[TelemetrySummary],
    manifest: Manifest | None,
) -> EnergyUse | None:
    """Return the energy of a run; None if a counter of one of its devices was not read.

    ``device`` is the kind that the run reports.
    """
    if measurement is None or not telemetry or len(telemetry) < case.nodes:
        return None
    unit = unit_of_work(measurement.unit)
    on_cpu = case.device is Device.CPU or device == Device.CPU
    indexes = () if on_cpu else gpus_of(case, manifest)
    gpus = [working_gpus(node, indexes) for node in telemetry]
    if any(gpus):
        found = [_gpu_joules(used) for used in gpus]
        source, devices = EnergySource.GPUS, sum(map(len, gpus))
    else:
        found = [node.cpu_energy_j for node in telemetry]
        source, devices = EnergySource.CPU_PACKAGES, len(telemetry)
        if not on_cpu and any(node.gpus for node in telemetry):
            return None
    watts = 0.0
    for node, joules in zip(telemetry, found, strict=True):
        seconds = node.covered_s or node.seconds
        if joules is None or seconds <= 0:
            return None
        watts += joules / seconds
    joules_of_all = sum(joules or 0.0 for joules in found)
    if watts <= 0:
        return None
    return EnergyUse(
        source=source,
        joules=joules_of_all,
        watts=watts,
        per_unit_j=watts / measurement.throughput,
        unit=unit,
        devices=devices,
    )


def unit_of_work(unit: str) -> str:
    """Return what a rate counts, in the singular: ``tokens/s`` counts a ``token``."""
    word = unit.partition("/")[0]
    return word[:-1] if word.endswith("s") and len(word) > 1 else word


def _gpu_joules(gpus: Sequence[GpuSummary]) -> float | None:
    """Return the energy of these GPUs; None without a GPU, or if one has no counter."""
    known = [gpu.energy_j for gpu in gpus if gpu.energy_j is not None]
    return sum(known) if known and len(known) == len(gpus) else None


def energy_finding(case: str, uses: Sequence[EnergyUse | None]) -> EnergyFinding | None:
    """Return the energy of a case over its runs; None if a run has none, or another source."""
    known = [use for use in uses if use is not None]
    if not known or len(known) < len(uses) or len({(use.source, use.unit) for use in known}) > 1:
        return None
    found = estimate([use.per_unit_j for use in known])
    if found is None:
        return None
    powers = sorted(use.watts for use in known)
    return EnergyFinding(
        case=case,
        source=known[0].source,
        runs=len(known),
        unit=known[0].unit,
        per_unit_j=found.median,
        interval=found.interval,
        watts=powers[len(powers) // 2],
        devices=known[0].devices,
    )


def joules_text(joules: float) -> str:
    """Return joules with a prefix that suits them: ``12.3 mJ``."""
    for factor, prefix in ((1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ")):
        if joules >= factor:
            return f"{joules / factor:.4g} {prefix}J"
    return f"{joules:.4g} J"
