"""The order of doubts: causes before symptoms, by a table (``evidence/causes.yaml``).

A run that waited for its loader in every third step has two levels of step times. The wait is the cause and the levels
are a symptom: a reader who sees only the symptom looks for the cause in the wrong place. Where the machine is the
cause of a missing interval, the advice names the ways out.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

from trainmark.documents import parse_yaml
from trainmark.measure.statistics import MAX_RATE_RATIO, MIN_RUNS_FOR_ORDER_STATISTICS
from trainmark.schema.findings import Advice
from trainmark.schema.gates import SPOILING, GateName
from trainmark.schema.measurement import About, NoInterval, Suspicion
from trainmark.schema.results import CaseResult, Results, RunResult, sound
from trainmark.schema.telemetry import POWER_LIMIT

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
        "`trainmark run --cpus LIST` keeps the runs on some CPUs, if the other programs use the rest (for example "
        "started by `taskset -c`); only these CPUs are then looked at",
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
