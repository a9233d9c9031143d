"""Which of a node's GPUs a case computes on."""

from trainmark.schema.case import Case, Device
from trainmark.schema.manifest import Manifest, Node


def gpus_of(case: Case, manifest: Manifest | None) -> tuple[int, ...] | None:
    """Return the GPUs, by NVML's index, that a run computes on; None where they are chosen by another name.

    CUDA counts unlike GPUs from the fastest on, and NVML by their places.
    """
    if case.device is Device.CPU:
        return ()
    if manifest is None or any(_chooses(node) or _has_unlike_gpus(node) for node in manifest.nodes):
        return None
    return tuple(range(case.devices_per_node))


def _chooses(node: Node) -> bool:
    return any(name in node.variables for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"))


def _has_unlike_gpus(node: Node) -> bool:
    return len({gpu.name for gpu in node.accelerators.gpus}) > 1
