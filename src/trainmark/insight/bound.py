"""The cause that limits a run: data wait, host, communication, power limit, memory bandwidth, compute, or not known.

The evidence is a share for each possible cause, read from a run's measurement, telemetry and ranks; the thresholds and
their sources are the table ``evidence/bounds.yaml``. A reader returns None where its evidence does not apply, and a
share of None where the fact was not read. A stall, in which the device does not compute, is named before a limit of the
device. A fact that a run lacks is no evidence of its absence: such a cause is never ruled out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import median_low

from trainmark.documents import parse_yaml
from trainmark.errors import InputError
from trainmark.measure.energy import gpus_of, working_gpus
from trainmark.measure.gates import cannot_look
from trainmark.node.machine import count_cpus
from trainmark.schema.case import Case, Device
from trainmark.schema.manifest import GpuFacts, Manifest
from trainmark.schema.measurement import Measurement
from trainmark.schema.names import RESULTS, RUNS
from trainmark.schema.ranks import RankComparison, RankSpeed, RankTimes
from trainmark.schema.results import (
    Bound,
    BoundCheck,
    BoundFinding,
    CaseResult,
    RunBound,
    RunResult,
    StoredManifest,
    pooled,
)
from trainmark.schema.telemetry import POWER_LIMIT, GpuSummary, TelemetrySummary
from trainmark.store import read_results

MIN_LIMITED = 0.5
"""The smallest share of a GPU's samples at the power limit that counts."""


@dataclass(frozen=True, slots=True)
class EvidenceRule:
    """One entry of the table; ``is_stall``: the device does not compute meanwhile.

    ``short`` is the evidence in a few words, ``fact`` its name, and ``settle`` how to get it if a run lacks it.
    """

    name: str
    bound: Bound
    is_stall: bool
    least: float
    of: str
    source: str
    short: str | None
    fact: str
    settle: str | None


@cache
def bound_table() -> tuple[EvidenceRule, ...]:
    """Return the table of evidence, in the order in which causes are named."""
    text = (files("trainmark.insight") / "evidence" / "bounds.yaml").read_text(encoding="utf-8")
    return tuple(
        EvidenceRule(
            name=entry["name"],
            bound=Bound(entry["bound"]),
            is_stall=entry["kind"] == "stall",
            least=float(entry["least"]),
            of=entry["of"],
            source=entry["source"],
            short=entry["short"],
            fact=entry["fact"],
            settle=entry["settle"],
        )
        for entry in parse_yaml(text)["evidence"]
    )


@dataclass(frozen=True, slots=True)
class UsedGpu:
    """A GPU of the run over the window: its summary, and its power limit and highest clock by the manifest."""

    summary: GpuSummary
    power_limit_w: float | None = None
    max_clock_mhz: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundFacts:
    """The facts of one run that the evidence is read from; None or empty for what is unknown.

    ``nodes`` are the summaries of nodes whose samples cover the window; ``unsampled`` is the reason why there are none,
    or what to do about it.
    ``step_s`` is the mean step's time. ``on_gpu``: the case requires a GPU, or a GPU worked in the window.
    """

    devices: int = 1
    on_gpu: bool = False
    data_wait: float | None = None
    gpus: tuple[UsedGpu, ...] = ()
    nodes: tuple[TelemetrySummary, ...] = ()
    unsampled: str | None = None
    mfu: float | None = None
    roofline: float | None = None
    ranks: RankTimes | None = None
    rank_logs: RankComparison | None = None
    step_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A share with its sentence; without a share, the sentence is the reason."""

    share: float | None
    sentence: str


def _data_wait(facts: BoundFacts) -> Reading:
    slowest = _most_waiting(facts.rank_logs)
    if slowest is not None and (share := _wait_share(slowest)) > (facts.data_wait or 0.0):
        on = f" on {slowest.host}" if slowest.host else ""
        return Reading(
            share,
            f"rank {slowest.rank}{on} waits for data in {percent(share)} of a step, {slowest.more_data_s:.3g} s "
            "longer than the others, which wait for it if they exchange gradients",
        )
    if facts.data_wait is None:
        return Reading(None, "the program does not print how long it waits for data")
    return Reading(facts.data_wait, f"the program waits for data in {percent(facts.data_wait)} of the window")


def _most_waiting(found: RankComparison | None) -> RankSpeed | None:
    """Return the rank that waits longest for its data, if its log shows that it waits longer than the others."""
    waiting = [
        rank
        for rank in (found.ranks if found is not None else ())
        if rank.waits_for_data and rank.step_time_s
    ]
    return max(waiting, key=_wait_share, default=None)


def _wait_share(rank: RankSpeed) -> float:
    return min(1.0, (rank.data_time_s or 0.0) / rank.step_time_s) if rank.step_time_s else 0.0


def _gpu_idle(facts: BoundFacts) -> Reading | None:
    busy = [gpu.summary.utilisation_mean for gpu in facts.gpus if gpu.summary.utilisation_mean is not None]
    if not busy:
        return Reading(None, "the GPU's utilisation was not read") if facts.on_gpu else None
    share = sum(busy) / len(busy)
    rest = max(0.0, 1 - share - (facts.data_wait or 0.0))
    power = [gpu.summary.power_w_mean for gpu in facts.gpus if gpu.summary.power_w_mean is not None]
    limits = [gpu.power_limit_w for gpu in facts.gpus if gpu.power_limit_w is not None]
    drawn = f" at {sum(power) / len(power):.0f} W" if power else ""
    of = f" of {sum(limits) / len(limits):.0f} W" if drawn and limits else ""
    waiting = ""
    if rest >= least("gpu-idle"):
        known = facts.data_wait is not None
        waiting = f", idle while the host {'launches kernels' if known else 'launches kernels or loads data'}"
    return Reading(rest, f"GPU busy {percent(share)}{drawn}{of}{waiting}")


def _cpus_withheld(facts: BoundFacts) -> Reading | None:
    """Read whether the busy processes fill CPUs that are fewer than the run may use."""
    found = [
        (node.cpus, node.busy_cpus, node.cpu_tree_mean * node.cpus)
        for node in facts.nodes
        if node.cpus and node.busy_cpus and node.cpu_tree_mean is not None
    ]
    if facts.on_gpu or not found:
        return None
    cpus, allowed, used = max(found, key=lambda one: 1 - one[1] / one[0])
    if allowed >= cpus or used < 0.8 * allowed:
        return Reading(0.0, f"the program may use {allowed} of {cpus} CPUs")
    return Reading(
        1 - allowed / cpus,
        f"the program keeps busy all {allowed} of {cpus} CPUs that its affinity allows ({used:.1f} used)",
    )


def _cpu_shared(facts: BoundFacts) -> Reading | None:
    """Read how long the program waited for a CPU that other processes used.

    The kernel counts the wait; without its counter (files of older versions), the share of other processes is an upper
    bound of it if no CPU was free.
    """
    if facts.on_gpu:
        return None
    found = [
        node for node in facts.nodes if node.cpu_other_mean is not None and node.cpu_tree_mean is not None
    ]
    if not found:
        return Reading(None, "the CPUs were not observed")
    node = max(found, key=lambda one: one.cpu_other_mean or 0.0)
    other, own, wait = node.cpu_other_mean or 0.0, node.cpu_tree_mean or 0.0, node.cpu_wait_mean
    if other < least("cpu-shared") or other + own < _FULL:
        return Reading(0.0, f"other processes took {percent(other)} of the CPUs, and some were free")
    if wait is None:
        return Reading(other, f"other processes took {percent(other)} of the CPUs, and none was free")
    return Reading(
        wait,
        f"the program waits for a CPU in {percent(wait)} of the window, since other processes take {percent(other)} "
        "of the CPUs",
    )


_FULL = 0.85
"""The share of the CPUs in use from which a process may have to wait for one; the kernel's ticks blur the rest."""


def _rank_wait(facts: BoundFacts) -> Reading | None:
    if facts.devices == 1:
        return None
    ranks = facts.ranks
    slower = [rank for rank in (facts.rank_logs.ranks if facts.rank_logs else ()) if rank.is_slower]
    if ranks is None and slower:
        slowest = max(slower, key=lambda rank: rank.slower_by or 0.0)
        by = slowest.slower_by or 0.0
        on = f" on {slowest.host}" if slowest.host else ""
        return Reading(
            by / (1 + by), f"rank {slowest.rank}{on} is {percent(by)} slower than the others by its log"
        )
    if ranks is not None and ranks.waits is None and any(rank.pass_s for rank in ranks.ranks):
        return Reading(
            None,
            "a rank's own pass takes longer after the window than a whole step in it, so its timing was disturbed",
        )
    if ranks is None or ranks.waits is None:
        return Reading(None, "the ranks do not report how long they wait for each other")
    than = f", which is {percent(ranks.slower_by)} slower" if ranks.slower_by else ""
    return Reading(
        ranks.waits,
        f"the other ranks wait {percent(ranks.waits)} of a step for rank {ranks.slowest}{than}",
    )


def _gradient_exchange(facts: BoundFacts) -> Reading | None:
    """Read the part of an exchange that the passes cannot hide: at most what a step takes beyond the slowest pass."""
    if facts.devices == 1:
        return None
    exchange = facts.ranks.all_reduce if facts.ranks is not None else None
    if exchange is None or facts.ranks is None:
        return Reading(None, "the time of the gradient exchange is unknown")
    is_balanced = facts.ranks.waits is not None
    passes = [rank.pass_s for rank in facts.ranks.ranks if rank.pass_s is not None and is_balanced]
    at_most = exchange.share
    if passes and facts.step_s:
        at_most = min(at_most, max(0.0, 1 - max(passes) / facts.step_s))
    elif exchange.share >= least("gradient-exchange"):
        return Reading(
            None,
            f"an exchange of the gradients alone takes {percent(exchange.share)} of a step; how much of it the passes "
            "hide is unknown",
        )
    return Reading(
        at_most,
        f"up to {percent(at_most)} of a step is the exchange of {exchange.bytes / 2**20:.3g} MiB of gradients that no "
        "pass hides",
    )


def _power_limit(facts: BoundFacts) -> Reading | None:
    """Read the clock that the most limited GPU loses at its power limit."""
    if not facts.gpus:
        return Reading(None, "the GPU's clocks were not read") if facts.on_gpu else None
    limited = max(facts.gpus, key=lambda gpu: gpu.summary.reason_shares.get(POWER_LIMIT, 0.0))
    gpu, share = limited.summary, limited.summary.reason_shares.get(POWER_LIMIT, 0.0)
    if gpu.throttled_share is None and not gpu.reason_shares:
        return Reading(None, "NVML reports no reasons for low clocks")
    if share < MIN_LIMITED:
        return Reading(0.0, f"power limit in {percent(share)} of the samples")
    clock, highest = gpu.sm_clock_mhz_mean, limited.max_clock_mhz
    if clock is None or not highest:
        return Reading(
            None, f"power limit in {percent(share)} of the samples; its clock or highest clock is unknown"
        )
    loss = max(0.0, 1 - clock / highest)
    return Reading(
        loss,
        f"at the power limit in {percent(share)} of the samples, the clock is {clock:.0f} of {highest} MHz",
    )


def _memory_roofline(facts: BoundFacts) -> Reading | None:
    """Read the share of a step that its bytes need beyond its operations, if it is the larger one."""
    if facts.roofline is None or facts.mfu is None:
        return None
    memory = max(0.0, facts.roofline - facts.mfu)
    sentence = (
        f"at the measured bandwidth the bytes of a step take {percent(memory)} of it, its operations "
        f"{percent(facts.mfu)}"
    )
    return Reading(memory if memory > facts.mfu else 0.0, sentence)


def _model_flops(facts: BoundFacts) -> Reading | None:
    if facts.mfu is None:
        return Reading(None, "the MFU is unknown") if facts.on_gpu else None
    return Reading(facts.mfu, f"the MFU is {percent(facts.mfu)}")


def _memory_controller(facts: BoundFacts) -> Reading | None:
    if not facts.gpus:
        return None
    found = [gpu.summary.memory_utilisation_mean for gpu in facts.gpus]
    known = [share for share in found if share is not None]
    if not known:
        return Reading(None, "the use of the GPU's memory was not read")
    share = sum(known) / len(known)
    return Reading(share, f"GPU memory at work {percent(share)} of the window")


def _cpu_busy(facts: BoundFacts) -> Reading | None:
    """Read how many cores the program keeps busy, as a share of one core for each rank."""
    if facts.on_gpu:
        return None
    found = [
        (node.cpu_tree_mean, node.cpus)
        for node in facts.nodes
        if node.cpu_tree_mean is not None and node.cpus
    ]
    if not found:
        return Reading(None, "the CPUs were not observed") if not facts.nodes else None
    used, cpus = sum(share * count for share, count in found), sum(count for _, count in found)
    return Reading(min(1.0, used / min(facts.devices, cpus)), f"the program uses {used:.1f} of {cpus} CPUs")


READERS: Mapping[str, Callable[[BoundFacts], Reading | None]] = {
    "data-wait": _data_wait,
    "gpu-idle": _gpu_idle,
    "cpus-withheld": _cpus_withheld,
    "cpu-shared": _cpu_shared,
    "rank-wait": _rank_wait,
    "gradient-exchange": _gradient_exchange,
    "power-limit": _power_limit,
    "memory-roofline": _memory_roofline,
    "mfu": _model_flops,
    "memory-controller": _memory_controller,
    "cpu-busy": _cpu_busy,
}


@cache
def least(name: str) -> float:
    """Return the smallest share from which evidence names its cause."""
    return next(rule.least for rule in bound_table() if rule.name == name)


def percent(share: float) -> str:
    """Return a share as a percentage of two digits."""
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}"


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
    unread = [f"not measured: {', '.join(names)}"] if names else []
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
