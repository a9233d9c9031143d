"""The GPUs of a node that a case computes on: one rule for energy, gates, findings and what a run was bound by."""

from collections.abc import Collection

from trainmark.schema.case import Case, Device
from trainmark.schema.manifest import Manifest, Node
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
