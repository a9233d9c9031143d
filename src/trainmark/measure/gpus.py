"""The GPUs of a node that a case computes on: one rule for energy, gates, findings and what a run was bound by."""

from collections.abc import Collection

from trainmark.schema.case import Case, Device
from trainmark.schema.manifest import Manifest, Node
from trainmark.schema.telemetry import GpuSummary, TelemetrySummary


def gpus_of(case: Case, manifest: Manifest | None) -> tuple[int, ...] | None:
    """Return the NVML indexes of the GPUs that a run computes on; None if CUDA's order may differ from NVML's.

    CUDA orders GPUs of different models from the fastest on, NVML by bus position.
    """
    if case.device is Device.CPU:
        return ()
    if manifest is None or any(_selects_gpus(node) or _has_mixed_gpus(node) for node in manifest.nodes):
        return None
    return tuple(range(case.devices_per_node))


def sampled_gpus(node: TelemetrySummary, indexes: Collection[int] | None) -> tuple[GpuSummary, ...]:
    """Return the sampled GPUs of a node among those with the ``indexes`` of a run; all of them if these are unknown.

    The only GPU of a node is the run's, whatever its index: NVML lists the GPUs that a container or a job may use.
    """
    if indexes is not None and not indexes:
        return ()
    if len(node.gpus) == 1:
        return node.gpus
    return tuple(gpu for gpu in node.gpus if indexes is None or gpu.index in indexes)


def working_gpus(node: TelemetrySummary, indexes: Collection[int] | None) -> tuple[GpuSummary, ...]:
    """Return those of the ``sampled_gpus`` that computed in the window."""
    return tuple(gpu for gpu in sampled_gpus(node, indexes) if gpu.utilisation_mean)


def _selects_gpus(node: Node) -> bool:
    return any(name in node.variables for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"))


def _has_mixed_gpus(node: Node) -> bool:
    return len({gpu.name for gpu in node.accelerators.gpus}) > 1
