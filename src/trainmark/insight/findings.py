"""Findings from results: doubts with causes before symptoms, ratios of two cases, frameworks that did equal work.

A run that waited for its loader in every third step has two levels of step times. The wait is the cause and the levels
are a symptom: a reader who sees only the symptom looks for the cause in the wrong place. The table
``evidence/causes.yaml`` has the order. Where the machine is the cause of a missing interval, the advice names the ways
out.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import median, median_high, median_low
from typing import TypeVar

from trainmark.documents import parse_yaml
from trainmark.insight.bound import devices_of, judge_bounds
from trainmark.measure import ratio
from trainmark.measure.energy import energy_finding, gpus_of, sampled_gpus
from trainmark.measure.pooling import same_hardware
from trainmark.measure.statistics import MAX_RATE_RATIO, MIN_RUNS_FOR_ORDER_STATISTICS
from trainmark.printable import significant
from trainmark.schema.case import MAX_BATCH, SYNTHETIC, Case
from trainmark.schema.energy import EnergyFinding
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import (
    SPOILING,
    About,
    Cause,
    GateName,
    NoInterval,
    Ratio,
    Shape,
    Steadiness,
    Suspicion,
)
from trainmark.schema.names import STEPS_UNIT
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import (
    Advice,
    CaseResult,
    ChoiceDifference,
    Doubt,
    EqualityFinding,
    Findings,
    FittingFinding,
    PerDeviceFinding,
    PowerFinding,
    RanksFinding,
    RatioFinding,
    RatioKind,
    RequirementFinding,
    Results,
    RunResult,
    StoredManifest,
    pooled,
    sound,
)
from trainmark.schema.telemetry import POWER_LIMIT, GpuSummary

DATA_WAIT = "data-wait"
"""The code of a doubt about a run that waited for its own loader."""
POWER_LIMITED = "power-limit"
"""The code of a doubt about a run whose GPU was at its power limit."""
MIN_DATA_WAIT = 0.1
"""The smallest share of the window that a wait for data must take to explain a symptom."""
MIN_POWER_LIMIT = 0.5
"""The smallest share of a GPU's samples at the power limit that explains a symptom."""

D = TypeVar("D", bound=Suspicion)
_BY_GATE = {
    GateName.CPU_SHARED: (
        "`trainmark run --wait-quiet MINUTES` waits before each run until other processes take less than 10 % of the "
        "CPUs",
        "`trainmark run --cpus LIST` runs and checks on these CPUs only; keep the other programs on the rest (for "
        "example with `taskset -c`)",
    ),
    GateName.GPU_SHARED: (
        "choose a GPU that no other program uses: `CUDA_VISIBLE_DEVICES=1 trainmark run ...`",
    ),
    GateName.GPU_THROTTLED: ("let the GPU cool down or improve its cooling, then run again",),
    GateName.CLOCK_DROPPED: ("fix the GPU's clock (`nvidia-smi --lock-gpu-clocks`), then run again",),
}


@dataclass(frozen=True, slots=True)
class CauseTable:
    """The codes in their order, and by cause the codes that it explains."""

    ranks: dict[str, int]
    explains: dict[str, frozenset[str]]

    def rank(self, code: str) -> int:
        """Return the place of a code; an unknown one is between the causes and the symptoms."""
        return self.ranks.get(code, len(self.explains))

    def causes_of(self, code: str, codes: Collection[str]) -> tuple[str, ...]:
        """Return those of ``codes`` that may bring about the doubt ``code``, in the order of the table."""
        return tuple(
            cause for cause, explained in self.explains.items() if cause in codes and code in explained
        )


@cache
def cause_table() -> CauseTable:
    """Return trainmark's table of causes and symptoms."""
    text = (files("trainmark.insight") / "evidence" / "causes.yaml").read_text(encoding="utf-8")
    document = parse_yaml(text)
    causes = {entry["code"]: frozenset(entry["explains"]) for entry in document["causes"]}
    later = [*document["symptoms"], *document["last"]]
    ranks = {code: place for place, code in enumerate(causes)}
    ranks |= {code: len(causes) + 1 + place for place, code in enumerate(later)}
    return CauseTable(ranks, causes)


def in_causal_order(doubts: Iterable[D]) -> list[D]:
    """Return doubts about one number with causes before symptoms; equals keep their order."""
    table = cause_table()
    return sorted(doubts, key=lambda doubt: table.rank(doubt.code))


def with_causes(run: RunResult, doubts: Sequence[Suspicion]) -> list[Suspicion]:
    """Return a run's doubts in causal order, with those causes that the run's own records show.

    A wait for data and a GPU at its power limit are no doubts by themselves: they are part of what the number measures.
    They are added where a doubt is their symptom.
    """
    table, codes = cause_table(), {doubt.code for doubt in doubts}
    shown = (cause for cause in _recorded_causes(run) if cause.code not in codes)
    added = [cause for cause in shown if table.explains[cause.code] & codes]
    return in_causal_order([*doubts, *added])


def _recorded_causes(run: RunResult) -> Iterator[Suspicion]:
    wait = run.measurement.data_wait if run.measurement else None
    if wait is not None and wait >= MIN_DATA_WAIT:
        yield data_wait_doubt(wait)
    shares = {
        gpu.index: gpu.reason_shares.get(POWER_LIMIT, 0.0) for node in run.telemetry for gpu in node.gpus
    }
    limited = max(shares, key=lambda index: shares[index], default=None)
    if limited is not None and shares[limited] >= MIN_POWER_LIMIT:
        yield Suspicion(
            code=POWER_LIMITED,
            sentence=f"GPU {limited} was at its power limit in {shares[limited]:.0%} of the window's samples",
            about=About.MACHINE,
            value=shares[limited],
            bound=MIN_POWER_LIMIT,
        )


def data_wait_doubt(share: float) -> Suspicion:
    """Return the doubt about a run that waited for its loader in this share of its window."""
    return Suspicion(
        code=DATA_WAIT,
        sentence=f"rank 0 waited for its data loader in {share:.0%} of the window",
        about=About.WINDOW,
        value=share,
        bound=MIN_DATA_WAIT,
    )


def advise(results: Results) -> Iterator[Advice]:
    """Yield the advice for each case with a number that has no interval because of its machine or too few runs."""
    for case in results.cases:
        if case.estimate is None:
            continue
        measured = [run for run in case.runs if run.measurement is not None]
        if measured and not sound(case.runs):
            yield _after_disturbance(case, measured)
        elif case.estimate.no_interval is NoInterval.RUNS_DISAGREE:
            yield _after_disagreement(case, measured)


def _after_disturbance(case: CaseResult, measured: list[RunResult]) -> Advice:
    spoiled = [run for run in measured if run.spoiled]
    gates = [gate for gate in GateName if gate in SPOILING and any(gate in run.spoiled_by for run in spoiled)]
    rest = len(measured) - len(spoiled)
    reason = (
        f"the machine disturbed {len(spoiled)} of {len(measured)} runs ({', '.join(gates)})"
        + (f", and {rest} {'was' if rest == 1 else 'were'} not watched" if rest else "")
        + ": the number is the median of all of them, without an interval"
    )
    steps = [step for gate in gates for step in _BY_GATE[gate]]
    if rest:
        steps.append("measure more steps (`steps` in the suite's protocol), so that each window has samples")
    if any(run.cpu_s_per_sample is not None for run in measured):
        steps.append("compare the CPU time per sample, which other load changes less than the throughput")
    off = ", ".join(gates)
    steps.append(
        f"to accept the disturbance as part of the number, write `gates: {{off: [{off}]}}` in the suite and set "
        f"`repeats` to {MIN_RUNS_FOR_ORDER_STATISTICS} or more; with fewer, runs that differ by more than a factor of "
        f"{MAX_RATE_RATIO:g} have no interval"
    )
    return Advice(case=case.id, reason=reason, steps=tuple(steps))


def _after_disagreement(case: CaseResult, measured: list[RunResult]) -> Advice:
    assert case.estimate is not None
    factor = case.estimate.maximum / case.estimate.minimum
    return Advice(
        case=case.id,
        reason=(
            f"the fastest of {case.estimate.n} runs is {factor:.2g} times as fast as the slowest; with a factor of "
            f"more than {MAX_RATE_RATIO:g}, fewer than {MIN_RUNS_FOR_ORDER_STATISTICS} runs have no interval"
        ),
        steps=(
            "raise `repeats` in the suite's protocol (`--repeats` of a command) to "
            f"{MIN_RUNS_FOR_ORDER_STATISTICS} or more",
            "`trainmark run --wait-quiet MINUTES` waits before each run until other processes take less than 10 % of "
            "the CPUs",
        )
        + (
            ("compare the CPU time per sample, which other load changes less than the throughput",)
            if any(run.cpu_s_per_sample is not None for run in measured)
            else ()
        ),
    )


NOT_STEADY = "not-steady"
"""The code of a doubt that the warm-up test raised."""

OUTLIER_RUN = "run-apart"
"""The code of a doubt about a run that is far from the other runs of its case."""


CHOICE_DISTURBED = "choice-disturbed"
"""The code of a doubt about the choice of a case's best value."""


def find(results: Results) -> Findings:
    """Return the findings of the results."""
    doubts = tuple(_doubts(results.cases))
    counted = {(case.id, run.repeat) for case in results.cases for run in pooled(case.runs)}
    doubted = dict.fromkeys(
        doubt.case for doubt in doubts if not doubt.repeat or (doubt.case, doubt.repeat) in counted
    )
    by_id = {case.id: case for case in results.cases}
    return Findings(
        doubts=doubts,
        doubtful=tuple(doubted),
        ratios=tuple(
            RatioFinding(
                kind=kind,
                case=case,
                against=other,
                ratio=quotient,
                doubtful=tuple(side for side in (case, other) if side in doubted),
                settled_apart=tuple(_choice_differences(by_id[case], by_id.get(other))),
            )
            for kind, case, other, quotient in (*_speedups(results.cases), *_data(results))
        ),
        equality=_equality(results),
        ranks=tuple(_ranks(results.cases)),
        fitting=tuple(_fitting(results)),
        power=tuple(_power_limited(results)),
        advice=tuple(advise(results)),
        bounds=tuple(judge_bounds(results.cases, results.manifests)),
        per_device=tuple(_per_device(results.cases)),
        energy=tuple(_energy(results.cases)),
        requirements=_requirements(results, doubted),
    )


def judged(results: Results) -> Results:
    """Return the results with their findings, of which those are computed that an older trainmark did not write."""
    found = results.findings
    if found is None:
        return results.model_copy(update={"findings": find(results)})
    if found.bounds:
        return results
    added = {
        "bounds": tuple(judge_bounds(results.cases, results.manifests)),
        "per_device": tuple(_per_device(results.cases)),
    }
    return results.model_copy(update={"findings": found.model_copy(update=added)})


def _requirements(results: Results, doubted: Collection[str]) -> tuple[RequirementFinding, ...]:
    """Return the verdicts on what the suite requires."""
    if not results.require:
        return ()
    from trainmark.insight.requirements import judge_requirements

    return tuple(judge_requirements(results, doubted))


def _equality(results: Results) -> tuple[EqualityFinding, ...]:
    """Return the findings on equal work; one framework without certificates has none."""
    if not results.certificates and len({case.case.framework for case in results.cases}) < 2:
        return ()
    from trainmark.insight.equality import judge_equality

    return judge_equality(results.cases, results.certificates)


def _ranks(cases: Iterable[CaseResult]) -> Iterator[RanksFinding]:
    """Yield a finding for each case whose runs have the times of their ranks."""
    if any(run.ranks is not None for case in cases for run in case.runs):
        from trainmark.insight.ranks import judge_ranks

        yield from judge_ranks(cases)


def _energy(cases: Iterable[CaseResult]) -> Iterator[EnergyFinding]:
    """Yield the energy of each case whose runs all have one."""
    for case in cases:
        found = energy_finding(case.id, [run.energy for run in pooled(case.runs)])
        if found is not None:
            yield found


def _per_device(cases: Iterable[CaseResult]) -> Iterator[PerDeviceFinding]:
    """Yield the rate of one device for each measured case on several; a step is of all devices."""
    for case in cases:
        if case.unit == STEPS_UNIT:
            continue
        measured = [run.measurement for run in case.runs if run.measurement is not None]
        if case.estimate is None or not measured:
            continue
        devices, interval = devices_of(case.case, measured[0]), case.estimate.interval
        if devices > 1:
            yield PerDeviceFinding(
                case=case.id,
                devices=devices,
                value=case.estimate.median / devices,
                low=None if interval is None else interval.low / devices,
                high=None if interval is None else interval.high / devices,
            )


def _doubts(cases: Iterable[CaseResult]) -> Iterator[Doubt]:
    """Yield the doubts about each run of a case and then about all of its runs, causes before their symptoms."""
    for case in cases:
        outliers = [*_outliers(case)]
        of_runs = [
            doubt
            for run in case.runs
            for doubt in _explained(
                [
                    *(_doubts_of(case, run) if run.outcome is Outcome.OK else ()),
                    *(doubt for doubt in outliers if doubt.repeat == run.repeat),
                ]
            )
        ]
        yield from of_runs
        of_case = (Doubt(case=case.id, repeat=0, **doubt.model_dump()) for doubt in case.suspicions)
        yield from _explained([*of_case, *_chosen(case)], of_runs)


def _explained(doubts: Sequence[Doubt], others: Iterable[Doubt] = ()) -> list[Doubt]:
    """Return the doubts about one number in causal order, each with its causes among them and ``others``."""
    codes = {doubt.code for doubt in (*doubts, *others)}
    return [
        doubt.model_copy(update={"caused_by": cause_table().causes_of(doubt.code, codes)})
        for doubt in in_causal_order(doubts)
    ]


def _outliers(case: CaseResult) -> Iterator[Doubt]:
    """Yield a doubt for each pooled run that is far from the other runs of its case."""
    drifted = max(
        (doubt.value or 0 for doubt in case.suspicions if doubt.code == GateName.DRIFT_OVER_RUNS), default=0
    )
    rates = {run.repeat: run.measurement.throughput for run in pooled(case.runs) if run.measurement}
    if not rates:
        return
    middle = median(rates.values())
    # The median of 2 runs, or of equally many fast and slow ones, is between them and hides their distance.
    low, high = median_low(rates.values()), median_high(rates.values())
    for repeat, rate in rates.items():
        # A drift moves the first and the last run by half of its size, and has a separate doubt.
        if max(rate / low, high / rate) > MAX_RATE_RATIO and abs(rate / middle - 1) > drifted / 2:
            sentence = (
                f"the run has {significant(rate, 4)} {case.unit}, but the median of its case's {len(rates)} runs is "
                f"{significant(middle, 4)}: random variation does not explain such a difference"
            )
            yield Doubt(case=case.id, repeat=repeat, code=OUTLIER_RUN, sentence=sentence, about=About.MACHINE)


def _chosen(case: CaseResult) -> Iterator[Doubt]:
    """Yield a doubt if the machine disturbed some of the short runs by which the best value was chosen."""
    could_be_best = (trial for trial in case.trials if trial.outcome in (Outcome.OK, Outcome.TIMEOUT))
    spoiled = [", ".join(trial.axes.values()) for trial in could_be_best if trial.spoiled]
    if spoiled and case.estimate is not None:
        sentence = (
            f"other load disturbed {len(spoiled)} of the {len(case.trials)} short runs that chose the best value "
            f"({'; '.join(spoiled)}): another value may be faster"
        )
        yield Doubt(case=case.id, repeat=0, code=CHOICE_DISTURBED, sentence=sentence, about=About.MACHINE)


def _doubts_of(case: CaseResult, run: RunResult) -> Iterator[Doubt]:
    for doubt in doubts_of_run(run):
        yield Doubt(case=case.id, repeat=run.repeat, **doubt.model_dump())


def counted_doubts(case: CaseResult, runs: Sequence[RunResult]) -> Iterator[tuple[Suspicion, str]]:
    """Yield the doubts about a case in causal order, each with its code and how many of ``runs`` have it, in words.

    Of each code there are the doubts of the last run that has it: one for each host concerned.
    """
    found: dict[str, dict[str, Suspicion]] = {}
    having: Counter[str] = Counter()
    for run in runs:
        of_run: dict[str, dict[str, Suspicion]] = {}
        for doubt in doubts_of_run(run):
            of_run.setdefault(doubt.code, {})[doubt.sentence] = doubt
        found |= of_run
        having.update(of_run.keys())
    found |= {doubt.code: {doubt.sentence: doubt} for doubt in case.suspicions}
    for doubt in in_causal_order(doubt for doubts in found.values() for doubt in doubts.values()):
        some = f", in {having[doubt.code]} of {len(runs)} runs" if 0 < having[doubt.code] < len(runs) else ""
        yield doubt, f"{doubt.code}{some}"


def doubts_of_run(run: RunResult) -> list[Suspicion]:
    """Return all doubts about a run's number in causal order: its own, steps that were not steady, and their causes."""
    doubts = list(run.suspicions)
    if run.measurement is not None and run.measurement.steadiness.steady is False:
        sentence = _unsteady(run.measurement.steadiness)
        doubts.append(Suspicion(code=NOT_STEADY, sentence=sentence, about=About.WINDOW))
    return with_causes(run, doubts)


def _unsteady(found: Steadiness) -> str:
    off = (
        f"the mean step time is {abs(found.bias):.1%} {'longer' if found.bias > 0 else 'shorter'}"
        if found.bias
        else ""
    )
    if found.shape is None:  # of an older trainmark
        if found.settled_after is None:
            return "the step times did not become steady in the measured window"
        return (
            f"the step times became steady {found.settled_after} steps after the measured window began; {off}"
        )
    words = {
        Shape.SLOW_START: "the first {first} measured steps were slower",
        Shape.FAST_START: "the first {first} measured steps were faster (a pre-filled queue, or falling clocks)",
        Shape.SLOWDOWN: "the steps became slower from measured step {last} on",
        Shape.SPEEDUP: "the steps became faster from measured step {last} on",
        Shape.BURST: "measured steps {begin} to {end} differ from the steps before and after them",
        Shape.DRIFT: "the step time drifted throughout the window",
        Shape.LEVELS: "the step time alternated between levels",
    }[found.shape]
    middle = found.levels[1] if len(found.levels) > 1 else found.levels[0]
    shape = words.format(
        first=found.settled_after,
        last=found.levels[-1].first,
        begin=middle.first,
        end=middle.first + middle.steps,
    )
    because = {
        None: "",
        Cause.COMPILE: ", probably by compilation or autotuning",
        Cause.EPOCH: ", at the start of an epoch",
        Cause.DATA: ", while waiting for data",
    }[found.cause]
    than = "in the steady part" if found.settled_after is not None else "in the window's longest steady part"
    return f"{shape}{because}; {off} than {than}"


_Quotient = tuple[RatioKind, str, str, Ratio]


def _speedups(cases: Iterable[CaseResult]) -> Iterator[_Quotient]:
    for case in cases:
        found = case.speedup
        if found is not None and found.baseline != case.id:
            yield RatioKind.SPEEDUP, case.id, found.baseline, found.speedup
            yield RatioKind.EFFICIENCY, case.id, found.baseline, found.efficiency


def _data(results: Results) -> Iterator[_Quotient]:
    """Yield the ratio of each two measured cases that differ only in their data (and its loader)."""
    # Runs disturbed by their machine, runs on several machines and different hardware have no ratio.
    measured = [
        case
        for case in results.cases
        if case.estimate is not None
        and case.estimate.no_interval is not NoInterval.MACHINES_DIFFER
        and sound(case.runs)
    ]
    synthetic = {_but_for_data(case): case for case in measured if case.case.data == SYNTHETIC}
    for case in measured:
        other = synthetic.get(_but_for_data(case))
        if not case.case.reads_data_set or other is None:
            continue
        if not same_hardware(case.runs, other.runs, results.manifests):
            continue
        quotient = ratio(case.estimate, other.estimate)
        if quotient is not None:
            yield RatioKind.REAL_TO_SYNTHETIC, case.id, other.id, quotient


def _fitting(results: Results) -> Iterator[FittingFinding]:
    """Yield for each case out of memory the largest batch of a case that differs from it only in the batch."""
    measured = [
        (batch, case)
        for case in results.cases
        if case.estimate is not None
        and (batch := case.largest_batch or case.case.batch_per_device) != MAX_BATCH
    ]
    for case in results.cases:
        if case.outcome is not Outcome.OOM:
            continue
        fitting = (
            (int(batch), other)
            for batch, other in measured
            if other.settled.at_batch(1) == case.settled.at_batch(1)
            and same_hardware(case.runs, other.runs, results.manifests)
        )
        found = max(fitting, key=lambda pair: pair[0], default=None)
        if found is not None:
            yield FittingFinding(case=case.id, batch=found[0], by=found[1].id)


def _power_limited(results: Results) -> Iterator[PowerFinding]:
    """Yield the cases in which a GPU is at its power limit for at least half of the time."""
    for case in results.cases:
        runs = [(run, results.manifests.get(run.manifest or "")) for run in pooled(case.runs)]
        gpus = [gpu for run, there in runs if (gpu := _most_limited(case.case, run, there)) is not None]
        if gpus and (share := median(_share(gpu) for gpu in gpus)) >= 0.5:
            clocks = [gpu.sm_clock_mhz_mean for gpu in gpus if gpu.sm_clock_mhz_mean is not None]
            power = [gpu.power_w_mean for gpu in gpus if gpu.power_w_mean is not None]
            yield PowerFinding(
                case=case.id,
                runs=len(gpus),
                share=share,
                sm_clock_mhz=median(clocks) if clocks else None,
                power_w=median(power) if power else None,
            )


def _most_limited(case: Case, run: RunResult, manifest: StoredManifest | None) -> GpuSummary | None:
    """Return the GPU of a run that was at its power limit the longest.

    The result is None if no clock reason was sampled, or if it is unknown which of several GPUs the run used.
    """
    used = gpus_of(case, manifest if isinstance(manifest, Manifest) else None)
    gpus = [
        gpu
        for node in run.telemetry
        if used is not None or len(node.gpus) == 1
        for gpu in sampled_gpus(node, used)
        if gpu.throttled_share is not None
    ]
    return max(gpus, key=_share, default=None)


def _share(gpu: GpuSummary) -> float:
    return gpu.reason_shares.get(POWER_LIMIT, 0.0)


def _choice_differences(case: CaseResult, other: CaseResult | None) -> Iterator[ChoiceDifference]:
    """Yield the axes for which short runs chose different values in the two cases."""
    if other is None:
        return
    against = _settled(other)
    for axis, value in _settled(case).items():
        if against.get(axis, value) != value:
            yield ChoiceDifference(axis=axis, value=value, against=against[axis])


def _settled(case: CaseResult) -> dict[str, str]:
    found = {axis: str(case.settled.value(axis)) for axis in case.case.left_open}
    if case.case.batch_per_device == MAX_BATCH:
        found["batch_per_device"] = str(case.largest_batch or MAX_BATCH)
    return found


def _but_for_data(case: CaseResult) -> str:
    return case.case.model_copy(update={"data": SYNTHETIC, "loader": "native"}).model_dump_json()
