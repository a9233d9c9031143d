"""Rules of pooling: fingerprints of manifests, identities of runs, and the machines on which cases ran."""

import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

from trainmark.errors import InputError
from trainmark.logs.model import same_device
from trainmark.node.machine import count_cpus
from trainmark.schema.manifest import Manifest, Node
from trainmark.schema.results import RunResult, StoredManifest, pooled


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


def count_environments(manifests: Mapping[str, StoredManifest]) -> int:
    """Return the number of different environments; more nodes of the same kinds are no other environment."""
    return len({_kinds(manifest) or key for key, manifest in manifests.items()})


def _kinds(manifest: StoredManifest) -> frozenset[str]:
    """Return the facts of each kind of node, by which runs are pooled; empty for a document of a later version."""
    nodes = manifest.nodes if isinstance(manifest, Manifest) else ()
    return frozenset(json.dumps(_pooled(node), sort_keys=True) for node in nodes)


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
    facts["cpu"]["allowed"] = None if node.cpu.allowed is None else count_cpus(node.cpu.allowed)
    if node.cpu.pinned is None:
        # Manifests of earlier versions have the same fingerprint.
        del facts["cpu"]["pinned"]
    total = node.memory.total_bytes
    facts["memory"]["total_bytes"] = None if total is None else round(total / 2**30)
    for gpu in facts["accelerators"]["gpus"]:
        del gpu["uuid"], gpu["pci"]
    return facts


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for index, inner in enumerate(value):
            yield from _flatten(inner, f"{path}[{index}]")
    else:
        yield path, value


def same_hardware(
    one: Sequence[RunResult], other: Sequence[RunResult], manifests: Mapping[str, StoredManifest]
) -> bool:
    """Return whether two cases ran on the same kinds of processors and GPUs, as far as manifests show.

    A ratio between different hardware would compare the hardware and not the cases.
    """
    kinds, others = (
        {kind for run in pooled(runs) or runs for kind in machine_kinds(run, manifests)}
        for runs in (one, other)
    )
    return same_kinds(kinds, others)


def same_kinds(kinds: Set[Hashable], others: Set[Hashable]) -> bool:
    """Return whether two sets of machine kinds are equal, as far as they are known.

    Device names from logs must all mean one device; kinds from manifests may be several on each side.
    """
    names = [kind for kind in (*kinds, *others) if isinstance(kind, str)]
    if names:
        return same_device(names)
    return not kinds or not others or kinds == others


def machine_kinds(run: RunResult, manifests: Mapping[str, StoredManifest]) -> frozenset[Hashable]:
    """Return the kinds of machines in a run's manifest, as comparable values; empty if the manifest is missing."""
    manifest = manifests.get(run.manifest or "")
    return frozenset(
        (
            node.cpu.model,
            node.cpu.threads,
            node.cpu.quota_cpus,
            frozenset((gpu.name, gpu.memory_bytes, gpu.power_limit_w) for gpu in node.accelerators.gpus),
        )
        for node in (manifest.nodes if isinstance(manifest, Manifest) else ())
    )


def require_different_runs(case: str, runs: Sequence[RunResult]) -> None:
    """Raise ``InputError`` if two runs have the same start (to the microsecond) and duration: one is a copy."""
    first_repeats: dict[tuple[datetime, float | None], int] = {}
    for run in runs:
        if run.started_at is None:
            continue
        first = first_repeats.setdefault((run.started_at, run.duration_s), run.repeat)
        if first != run.repeat:
            raise InputError(
                f"runs {first} and {run.repeat} of {case} are the same run, which counts only once: both started at "
                f"{run.started_at.isoformat()}"
            )


def require_one_identity(case: str, runs: Sequence[RunResult]) -> None:
    """Raise ``InputError`` with the differences if a case's measured runs differ in identity or unit.

    A run with an unknown identity is taken to match.
    """
    units = dict.fromkeys(run.measurement.unit for run in pooled(runs) if run.measurement is not None)
    if len(units) > 1:
        raise InputError(
            f"runs of {case} have different units ({' and '.join(units)}) and are not pooled: keep those of one unit"
        )
    known = [run for run in runs if run.identity is not None and run.measurement is not None]
    for run in known[1:]:
        assert run.identity is not None
        assert known[0].identity is not None
        if changes := known[0].identity.describe_changes(run.identity):
            raise InputError(
                f"runs {known[0].repeat} and {run.repeat} of {case} ran different things and are not pooled: "
                f"{changes}; keep one of them ({known[0].directory}, {run.directory})"
            )
