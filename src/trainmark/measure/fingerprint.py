"""The fingerprint of a manifest, and the differences between two manifests."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from trainmark.cpu_lists import count_cpus
from trainmark.schema.manifest import Manifest, Node


def fingerprint(manifest: Manifest) -> str:
    """Return ``sha256:…`` of the facts that must match for two runs to be pooled; the order of nodes is ignored.

    Included: the processors with their governor, quota and allowed number, and which ones if runs are pinned to a part
    of them (a job has other CPUs each time, but ``--cpus`` is a choice); memory (to the GiB, because the kernel
    reserves a varying amount) and its limit; the GPUs with memory, VBIOS, limits and modes, their driver and topology;
    the framework with Python, CUDA, cuDNN and NCCL; the lock. Excluded: names, serial numbers, times, variables, and
    the operating system.
    """
    nodes = sorted(json.dumps(_pooled(node), sort_keys=True) for node in manifest.nodes)
    return "sha256:" + hashlib.sha256("\n".join(nodes).encode()).hexdigest()


def environment_of(manifest: Manifest) -> Manifest:
    """Return the manifest without measured peaks, which belong to one run."""
    nodes = tuple(node.model_copy(update={"peaks": None}) for node in manifest.nodes)
    return manifest.model_copy(update={"nodes": nodes})


def differences(one: Manifest, other: Manifest) -> list[tuple[str, Any, Any]]:
    """Return the facts that differ between two manifests as (path, first value, second value), sorted by path.

    A path looks like ``nodes[0].cpu.model``; a fact missing on one side is None there. Collection times and measured
    peaks are ignored.
    """
    left, right = (environment_of(manifest).model_dump(mode="json") for manifest in (one, other))
    return _differences(left, right)


def _differences(one: Any, other: Any) -> list[tuple[str, Any, Any]]:
    left, right = dict(_flatten(one)), dict(_flatten(other))
    return [
        (path, left.get(path), right.get(path))
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path) and not path.endswith("].collected")
    ]


def pooling_differences(one: Manifest, other: Manifest) -> list[tuple[str, Any, Any]]:
    """Return the differences that forbid pooling runs of two manifests, in the form of ``differences``."""
    left, right = ({"nodes": [_pooled(node) for node in manifest.nodes]} for manifest in (one, other))
    return _differences(left, right)


def _pooled(node: Node) -> dict[str, Any]:
    facts = node.model_dump(
        mode="json", include={"cpu", "memory", "accelerators", "framework", "environment_lock"}
    )
    facts["cpu"]["allowed"] = _count(node.cpu.allowed)
    if node.cpu.pinned is None:
        # Manifests of earlier versions have the same fingerprint.
        del facts["cpu"]["pinned"]
    total = node.memory.total_bytes
    facts["memory"]["total_bytes"] = None if total is None else round(total / 2**30)
    for gpu in facts["accelerators"]["gpus"]:
        del gpu["uuid"], gpu["pci"]
    return facts


def _count(cpus: str | None) -> int | None:
    """Return the number of CPUs in a kernel CPU list (``0-3,8``); None for another text."""
    return None if cpus is None else count_cpus(cpus)


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for index, inner in enumerate(value):
            yield from _flatten(inner, f"{path}[{index}]")
    else:
        yield path, value
