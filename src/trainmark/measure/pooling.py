"""One number of several runs: which of them are pooled, and what forbids it."""

from collections.abc import Hashable, Mapping, Sequence, Set
from datetime import datetime

from trainmark.errors import InputError
from trainmark.logs.hardware import one_device
from trainmark.measure.statistics import estimate
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import Estimate, NoInterval, Sampling
from trainmark.schema.results import RunResult, StoredManifest, pooled, sound


def estimate_of(
    runs: Sequence[RunResult], sampling: Sampling, *, one_machine: bool = True
) -> Estimate | None:
    """Return the estimate over a case's runs: those that the machine did not spoil, or where it spoiled all, those.

    Runs that are not of ``one_machine`` have no interval: it would speak for none of them.
    """
    measured = [run.measurement for run in pooled(runs) if run.measurement is not None]
    found = estimate([m.throughput for m in measured], sampling, [m.measured_steps for m in measured])
    if found is None or (sound(runs) and one_machine):
        return found
    why = NoInterval.SPOILED if one_machine else NoInterval.MACHINES_DIFFER
    return found.model_copy(update={"interval": None, "no_interval": why})


def on_like_machines(
    one: Sequence[RunResult], other: Sequence[RunResult], manifests: Mapping[str, StoredManifest]
) -> bool:
    """Tell whether two cases' numbers are of the same kinds of processors and GPUs, as far as manifests say it.

    Between numbers of different hardware a ratio would say what the hardware is worth.
    """
    kinds, others = (
        {kind for run in pooled(runs) or runs for kind in machines_of(run, manifests)}
        for runs in (one, other)
    )
    return alike(kinds, others)


def alike(kinds: Set[Hashable], others: Set[Hashable]) -> bool:
    """Tell whether machines are of the same kinds, as far as anybody says it.

    Devices that logs name are of one kind on both sides; what a manifest describes may be several kinds on either.
    """
    names = [kind for kind in (*kinds, *others) if isinstance(kind, str)]
    if names:
        return one_device(names)
    return not kinds or not others or kinds == others


def machines_of(run: RunResult, manifests: Mapping[str, StoredManifest]) -> frozenset[Hashable]:
    """Return the kinds of machines of a run's manifest, as values to be compared; empty where it is not known."""
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
    """Raise ``InputError`` where two runs began at the same microsecond and lasted as long: one is the other again."""
    began: dict[tuple[datetime, float | None], int] = {}
    for run in runs:
        if run.started_at is None:
            continue
        first = began.setdefault((run.started_at, run.duration_s), run.repeat)
        if first != run.repeat:
            raise InputError(
                f"runs {first} and {run.repeat} of {case} are one run, which counts once: both began at "
                f"{run.started_at.isoformat()}"
            )


def require_one_identity(case: str, runs: Sequence[RunResult]) -> None:
    """Raise ``InputError`` saying what differs when measured runs of a case ran different things, or counted them.

    A run whose identity is not known is taken to be of the same.
    """
    units = dict.fromkeys(run.measurement.unit for run in pooled(runs) if run.measurement is not None)
    if len(units) > 1:
        raise InputError(
            f"runs of {case} count {' and '.join(units)}: they are not pooled; keep those of one unit"
        )
    known = [run for run in runs if run.identity is not None and run.measurement is not None]
    for run in known[1:]:
        assert run.identity is not None
        assert known[0].identity is not None
        if told := known[0].identity.describe_changes(run.identity):
            raise InputError(
                f"runs {known[0].repeat} and {run.repeat} of {case} ran different things and are not pooled: {told}; "
                f"keep one of them ({known[0].directory}, {run.directory})"
            )
