"""Advice for cases whose number has no interval because of their machine: the reason, and the ways out by name."""

from collections.abc import Iterator

from trainmark.measure.statistics import MAX_RATE_RATIO, MIN_RUNS_FOR_ORDER_STATISTICS
from trainmark.schema.findings import Advice
from trainmark.schema.gates import SPOILING, GateName
from trainmark.schema.measurement import NoInterval
from trainmark.schema.results import CaseResult, Results, RunResult, sound

_BY_GATE = {
    GateName.CPU_SHARED: (
        "`trainmark run --wait-quiet MINUTES` waits before each run until other processes take less than 10 % of the "
        "CPUs",
        "`trainmark run --cpus LIST` keeps the runs on some CPUs, if the other programs use the rest (for example "
        "started by `taskset -c`); only these CPUs are then looked at",
    ),
    GateName.GPU_SHARED: (
        "choose a GPU that no other program uses: `CUDA_VISIBLE_DEVICES=1 trainmark run ...`",
    ),
    GateName.GPU_THROTTLED: ("let the GPU cool down or improve its cooling, then run again",),
    GateName.CLOCK_DROPPED: ("fix the GPU's clock (`nvidia-smi --lock-gpu-clocks`), then run again",),
}


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
        + (f", and {rest} {'was' if rest == 1 else 'were'} not looked at" if rest else "")
        + ": the number is the median of all of them, without an interval"
    )
    steps = [step for gate in gates for step in _BY_GATE[gate]]
    if rest:
        steps.append("measure more steps (`steps` in the suite's protocol), so that each window has samples")
    if any(run.cpu_s_per_sample is not None for run in measured):
        steps.append("compare the CPU time per sample, which other load changes less than the throughput")
    off = ", ".join(gates)
    steps.append(
        f"to accept the disturbance as part of the number, write `gates: {{off: [{off}]}}` in the suite and raise "
        f"`repeats` to {MIN_RUNS_FOR_ORDER_STATISTICS} or more, from which even runs that differ by more than a factor "
        f"of {MAX_RATE_RATIO:g} have an interval"
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
