"""Joules for one unit of work, by counters over the window: NVML's of the GPUs, or the kernel's of the processors.

The power over the covered part of the window is divided by the throughput of the whole window, so that a window that
the counters cover only in part needs no other number of units. A counter that was reset, or that a GPU of the run
lacks, gives no energy at all: a part of it would look like a saving. ``gpus_of`` and ``working_gpus`` are the GPUs that
a case computes on, for gates and findings as well.
"""

from collections.abc import Collection, Sequence

from trainmark.measure.statistics import estimate
from trainmark.schema.case import Case, Device
from trainmark.schema.energy import EnergyFinding, EnergySource, EnergyUse
from trainmark.schema.manifest import Manifest, Node
from trainmark.schema.measurement import Measurement
from trainmark.schema.telemetry import GpuSummary, TelemetrySummary

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
BY_BUS = "PCI_BUS_ID"


def gpus_of(case: Case, manifest: Manifest | None) -> tuple[int, ...] | None:
    """Return the NVML indexes of the GPUs that a run computes on; None if they are unknown.

    CUDA orders GPUs of different models from the fastest on, if ``CUDA_DEVICE_ORDER`` does not say otherwise, and NVML
    by bus position: of those only UUIDs in ``CUDA_VISIBLE_DEVICES`` say which are used. Indexes that differ between the
    nodes are unknown too.
    """
    if case.device is Device.CPU:
        return ()
    if manifest is None:
        return None
    of_nodes = {_shown_gpus(node, case.devices_per_node) for node in manifest.nodes}
    return of_nodes.pop() if len(of_nodes) == 1 else None


def sampled_gpus(node: TelemetrySummary, indexes: Collection[int] | None) -> tuple[GpuSummary, ...]:
    """Return the sampled GPUs of a node that a run uses: those with its ``indexes``.

    If these are unknown, they are the GPUs on which NVML lists processes of the run, or all if it lists none. The only
    GPU of a node is the run's, whatever its index: NVML lists the GPUs that a container or a job may use.
    """
    if indexes is not None and not indexes:
        return ()
    if len(node.gpus) == 1:
        return node.gpus
    if indexes is None:
        return tuple(gpu for gpu in node.gpus if gpu.run_processes_max) or node.gpus
    return tuple(gpu for gpu in node.gpus if gpu.index in indexes)


def working_gpus(node: TelemetrySummary, indexes: Collection[int] | None) -> tuple[GpuSummary, ...]:
    """Return those of the ``sampled_gpus`` that computed in the window."""
    return tuple(gpu for gpu in sampled_gpus(node, indexes) if gpu.utilisation_mean)


def _shown_gpus(node: Node, devices: int) -> tuple[int, ...] | None:
    """Return the NVML indexes of the first ``devices`` GPUs that the node shows to CUDA; None if they are unknown."""
    gpus, shown = node.accelerators.gpus, node.variables.get(VISIBLE)
    as_nvml = node.variables.get(ORDER) == BY_BUS or len({gpu.name for gpu in gpus}) <= 1
    if shown is None:
        return tuple(range(devices)) if as_nvml else None
    found: list[int] = []
    for name in (word.strip() for word in shown.split(",")[:devices]):
        if name.isdigit():
            fits = [int(name)] if as_nvml and int(name) < len(gpus) else []
        else:
            # CUDA accepts the beginning of a UUID if it fits one GPU alone.
            fits = [at for at, gpu in enumerate(gpus) if name and (gpu.uuid or "").startswith(name)]
        if len(fits) != 1:
            return None
        found += fits
    return tuple(found) if len(found) == devices else None


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
