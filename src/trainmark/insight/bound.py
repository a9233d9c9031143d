"""The cause that limits a run: data wait, host, communication, power limit, memory bandwidth, compute, or not known.

The evidence is read from a run's measurement, telemetry and ranks; its thresholds and their sources are the table
``evidence/bounds.yaml``. A stall, in which the device does not compute, is named before a limit of the device. A fact
that a run lacks is no evidence of its absence: such a cause is never ruled out.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median_low

from trainmark.cpu_lists import count_cpus
from trainmark.errors import InputError
from trainmark.insight.bound_evidence import READERS, BoundFacts, UsedGpu, bound_table, percent
from trainmark.measure.energy import gpus_of, working_gpus
from trainmark.measure.gates import cannot_look
from trainmark.schema.case import Case, Device
from trainmark.schema.findings import Bound, BoundCheck, BoundFinding, RunBound
from trainmark.schema.manifest import GpuFacts, Manifest
from trainmark.schema.measurement import Measurement
from trainmark.schema.names import RESULTS, RUNS
from trainmark.schema.results import CaseResult, RunResult, StoredManifest, pooled
from trainmark.schema.telemetry import TelemetrySummary
from trainmark.store import read_results

LITTLE = 0.005
"""A share below this is not mentioned next to the cause."""


def bound_facts(case: Case, run: RunResult, manifest: StoredManifest | None) -> BoundFacts:
    """Return the facts of a measured run; ``manifest`` is that of its hosts."""
    known = manifest if isinstance(manifest, Manifest) else None
    measurement = run.measurement
    reasons = [reason for node in run.telemetry if (reason := cannot_look(node))]
    if not run.telemetry:
        reasons = ["measure again with telemetry: this run has none"]
    gpus = () if reasons else _used_gpus(case, run, known)
    return BoundFacts(
        devices=devices_of(case, measurement),
        on_gpu=bool(gpus) or Device.CUDA in (case.device, run.parameters.device),
        data_wait=None if measurement is None else measurement.data_wait,
        gpus=gpus,
        nodes=() if reasons else tuple(_with_cpus(node, known) for node in run.telemetry),
        unsampled=reasons[0] if reasons else None,
        mfu=_mfu(measurement),
        roofline=None if measurement is None else measurement.roofline,
        ranks=run.ranks,
        rank_logs=run.rank_logs,
        step_s=_step_s(measurement),
    )


def devices_of(case: Case, measurement: Measurement | None) -> int:
    """Return the number of devices of a run: the case's, or more if the program's log says so."""
    printed = measurement.witnessed.get("gpus", "") if measurement else ""
    return max(case.world_size, int(printed) if printed.isdecimal() else 1)


def _mfu(measurement: Measurement | None) -> float | None:
    if measurement is None:
        return None
    if measurement.model_flops is not None:
        return measurement.model_flops.mfu
    return measurement.mfu.get("counted") or next(iter(measurement.mfu.values()), None)


def _step_s(measurement: Measurement | None) -> float | None:
    if measurement is None:
        return None
    if measurement.samples and measurement.window_s and measurement.measured_steps:
        return measurement.window_s / measurement.measured_steps
    return measurement.step_times.mean if measurement.step_times else None


def _used_gpus(case: Case, run: RunResult, manifest: Manifest | None) -> tuple[UsedGpu, ...]:
    """Return the GPUs of the run that worked in the window; none for a run on CPUs."""
    if case.device is Device.CPU or run.parameters.device == Device.CPU:
        return ()
    indexes = gpus_of(case, manifest)
    found = []
    for node in run.telemetry:
        known_nodes = () if manifest is None else manifest.nodes
        facts = known_nodes[node.node].accelerators.gpus if node.node < len(known_nodes) else ()
        for gpu in working_gpus(node, indexes):
            at = 0 if len(facts) == 1 else gpu.index
            known = facts[at] if at < len(facts) else GpuFacts()
            found.append(UsedGpu(gpu, known.power_limit_w, known.max_sm_clock_mhz))
    return tuple(found)


def _with_cpus(node: TelemetrySummary, manifest: Manifest | None) -> TelemetrySummary:
    """Return a node's summary with its number of CPUs, which older versions stored in the manifest alone."""
    if node.cpus is not None or manifest is None or node.node >= len(manifest.nodes):
        return node
    cpu = manifest.nodes[node.node].cpu
    cpus = cpu.threads if cpu.allowed is None else count_cpus(cpu.allowed)
    return node.model_copy(update={"cpus": cpus or None})


def judge_bound(facts: BoundFacts) -> RunBound:
    """Return what a run with these facts was bound by, with every check that applies."""
    checks = []
    for rule in bound_table():
        reading = READERS[rule.name](facts)
        if reading is not None:
            checks.append(
                BoundCheck(
                    evidence=rule.name,
                    bound=rule.bound,
                    share=None if reading.share is None else round(reading.share, 4),
                    least=rule.least,
                    sentence=reading.sentence,
                )
            )
    decided = _decided(checks, facts)
    if decided is None:
        return RunBound(
            bound=Bound.UNKNOWN,
            share=None,
            sentence=_unknown(checks),
            checks=tuple(checks),
            settle=_settle(checks, facts.unsampled),
        )
    return RunBound(
        bound=decided.bound,
        share=decided.share,
        sentence=decided.sentence,
        checks=tuple(checks),
        settle=_settle(check for check in checks if check.evidence == "data-wait")
        if decided.evidence == "gpu-idle"
        else None,
    )


def _decided(checks: Sequence[BoundCheck], facts: BoundFacts) -> BoundCheck | None:
    """Return the check that names the cause; None if the facts do not suffice."""
    stalls = {rule.name for rule in bound_table() if rule.is_stall}
    reached = [check for check in checks if check.share is not None and check.share >= check.least]
    waits = [check for check in reached if check.evidence in stalls]
    if waits:
        return max(waits, key=lambda check: check.share or 0.0)
    limits = [check for check in reached if check.evidence not in stalls]
    if not limits or _may_hide_a_stall(checks, facts):
        return None
    return limits[0]


def _may_hide_a_stall(checks: Sequence[BoundCheck], facts: BoundFacts) -> bool:
    """Return whether a stall that nothing was read about may take a tenth of the window or more.

    A GPU that waits for other ranks runs a kernel meanwhile, but does not reach its power limit or half of its peak.
    """
    read = {check.evidence: check.share for check in checks}
    if facts.on_gpu and read.get("gpu-idle") is None:
        return True
    if facts.devices == 1 or read.get("gradient-exchange") is not None:
        return False
    return not facts.on_gpu or ((facts.mfu or 0.0) < 0.5 and not read.get("power-limit"))


def _unknown(checks: Sequence[BoundCheck]) -> str:
    """Return the sentence of a run whose cause is not known: the facts that were read, and those that were not."""
    missing = {check.evidence for check in checks if check.share is None}
    names = [rule.fact for rule in bound_table() if rule.name in missing]
    unread = [f"unknown: {', '.join(names)}"] if names else []
    idle = next((check for check in checks if check.evidence == "gpu-idle"), None)
    communication = {"rank-wait", "gradient-exchange"} & missing
    itself = (
        ["the GPU itself, its arithmetic or its memory"] if idle is not None and not communication else []
    )
    return "; ".join([*itself, *_shown(checks), *unread]) or "nothing was read about this run"


def _shown(checks: Iterable[BoundCheck]) -> list[str]:
    """Return those checks in a few words each that read a share worth mentioning."""
    rules = {rule.name: rule for rule in bound_table()}
    found = []
    for check in checks:
        if check.share is None or (check.share < LITTLE and check.evidence not in _ALWAYS_SHOWN):
            continue
        short = rules[check.evidence].short if check.evidence in rules else None
        found.append(check.sentence if short is None else short.format(share=percent(check.share)))
    return found


_ALWAYS_SHOWN = ("data-wait", "gpu-idle", "cpu-busy")
"""The evidence that is mentioned even if its share is zero: a reader looks for it."""


def _settle(checks: Iterable[BoundCheck], unobserved: str | None = None) -> str | None:
    """Return how to get the facts that were not read, the most telling ones first.

    ``unobserved`` is the remedy if the machine was not observed: all facts about it are then missing.
    """
    missing = {check.evidence for check in checks if check.share is None}
    steps = [
        rule.settle
        for rule in bound_table()
        if rule.name in missing and rule.settle and not (unobserved and rule.name in _OF_MACHINE)
    ]
    return "; or ".join(dict.fromkeys([*([unobserved] if unobserved else []), *steps][:2])) or None


_OF_MACHINE = frozenset(
    {"gpu-idle", "cpus-withheld", "cpu-shared", "power-limit", "memory-controller", "cpu-busy"}
)
"""The evidence that telemetry gives."""


def judge_bounds(
    cases: Iterable[CaseResult], manifests: Mapping[str, StoredManifest]
) -> Iterable[BoundFinding]:
    """Yield what each measured case was bound by, from the runs in its estimate."""
    for case in cases:
        found = [bound_of(case.case, run, manifests) for run in pooled(case.runs)]
        if found:
            yield _of_case(case.id, found)


def bound_of(case: Case, run: RunResult, manifests: Mapping[str, StoredManifest]) -> RunBound:
    """Return what a run was bound by: as stored, or for a run of an older trainmark from its facts."""
    return run.bound or judge_bound(bound_facts(case, run, manifests.get(run.manifest or "")))


def stored_bound(folder: Path) -> RunBound | None:
    """Return what the run in a folder of a result directory was bound by, from its results.json; None without one."""
    directory = folder.resolve().parent.parent.parent
    if folder.resolve().parent.parent.name != RUNS or not (directory / RESULTS).is_file():
        return None
    try:
        results = read_results(directory / RESULTS)
    except InputError:
        return None
    name = folder.resolve().relative_to(directory).as_posix()
    return next(
        (
            bound_of(case.case, run, results.manifests)
            for case in results.cases
            for run in case.runs
            if run.directory == name and run.measurement is not None
        ),
        None,
    )


def _of_case(case: str, found: Sequence[RunBound]) -> BoundFinding:
    counts = {bound: sum(one.bound is bound for one in found) for bound in Bound}
    most = max(counts, key=lambda bound: (counts[bound], bound is not Bound.UNKNOWN))
    alike = [one for one in found if one.bound is most]
    middle = median_low(one.share or 0.0 for one in alike)
    chosen = next(one for one in alike if (one.share or 0.0) == middle)
    return BoundFinding(case=case, runs=len(alike), of=len(found), **dict(chosen))


def bound_line(found: RunBound) -> str:
    """Return the answer in one line: the cause with its share, the evidence, and the shares of other causes."""
    share = "" if found.share is None else percent(found.share)
    # The share of the cores or of the peak is in the sentence.
    unsaid = found.bound is not Bound.COMPUTE and share not in found.sentence
    head = f"{found.bound.label} {share}" if unsaid else found.bound.label
    some = isinstance(found, BoundFinding) and found.runs < found.of
    runs = f", in {found.runs} of {found.of} runs" if some and isinstance(found, BoundFinding) else ""
    return f"{head}{runs}: {bound_details(found)}"


def other_causes(found: RunBound) -> list[str]:
    """Return what was read about causes other than the one that limits a run; empty if that is not known."""
    if found.bound is Bound.UNKNOWN:
        return []
    return _shown(check for check in found.checks if check.sentence != found.sentence)


def bound_details(found: RunBound) -> str:
    """Return the evidence, in brackets that of other causes, and how to find out more."""
    known = found.bound is not Bound.UNKNOWN
    others = other_causes(found)
    rest = f" ({'; '.join(others)})" if others else ""
    how = f"; to find out{' more' if known else ''}: {found.settle}" if found.settle else ""
    return f"{found.sentence}{rest}{how}"
