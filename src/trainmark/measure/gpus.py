"""The GPUs of a node that a case computes on."""

from trainmark.schema.case import Case, Device
from trainmark.schema.manifest import Manifest, Node


def gpus_of(case: Case, manifest: Manifest | None) -> tuple[int, ...] | None:
    """Return the NVML indexes of the GPUs that a run computes on; None if CUDA's order may differ from NVML's.

    CUDA orders GPUs of different models from the fastest on, NVML by bus position.
    """
    if case.device is Device.CPU:
        return ()
    if manifest is None or any(_selects_gpus(node) or _has_mixed_gpus(node) for node in manifest.nodes):
        return None
    return tuple(range(case.devices_per_node))


def _selects_gpus(node: Node) -> bool:
    return any(name in node.variables for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"))


def _has_mixed_gpus(node: Node) -> bool:
    return len({gpu.name for gpu in node.accelerators.gpus}) > 1
