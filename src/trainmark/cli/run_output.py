"""A run on the terminal: its progress on stderr, and a command's results on stdout.

The results begin with the number, followed by what it rests on.
"""

import math
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trainmark.campaign import Progress as CampaignProgress
from trainmark.cli.suite_input import DEVICES, CommandSuite
from trainmark.errors import InputError
from trainmark.execution import Heartbeat
from trainmark.insight import compare
from trainmark.insight.bound import bound_line
from trainmark.insight.findings import counted_doubts, doubts_of_run
from trainmark.insight.ranks import shown_ranks
from trainmark.measure.energy import energy_finding, joules_text
from trainmark.node import RecentPace
from trainmark.printable import counted, folded, printable, significant, unfiltered
from trainmark.schema.case import Case, value_text
from trainmark.schema.certificate import failing
from trainmark.schema.comparison import CHANGES
from trainmark.schema.energy import EnergySource
from trainmark.schema.measurement import About, Estimate, Measurement, ModelFlops, Suspicion
from trainmark.schema.names import COMMAND_CARD, COMMAND_SUITE, EPOCHS_UNIT, LOG, RESULTS, RUNS, STEPS_UNIT
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import (
    BoundFinding,
    CaseResult,
    EndedBy,
    PerDeviceFinding,
    RequirementFinding,
    Results,
    RunResult,
    measured_runs,
)

_PULSE_INTERVAL_S = 15.0
"""Shortest time between two progress lines of a run, in seconds, if stderr is not a terminal."""


@dataclass(slots=True)
class _Clock:
    """Durations of the finished runs, from which the remaining time is estimated."""

    started: float
    durations: list[float] = field(default_factory=list)

    def left(self, runs: int, budget_s: float) -> str:
        """Return the estimated time of ``runs`` more runs, at most the rest of the budget, as the end of a sentence."""
        seconds = runs * sum(self.durations) / len(self.durations) if self.durations else math.inf
        if budget_s < seconds:
            return f"at most {duration(max(0.0, budget_s))} left, by the time budget"
        return f"about {duration(seconds)} left" if self.durations else "time left: unknown"


class ProgressPrinter:
    """A progress listener that prints to a stream; use it as a context manager."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = unfiltered(stream or sys.stderr)
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, transient=True) if stream.isatty() else None
        self._clock = _Clock(time.monotonic())
        self._progress = CampaignProgress(0, 0)
        self._printed_at = 0.0
        self._prepared: tuple[str, int] = ("", -1)
        self._pace = RecentPace()
        self._case: str | None = None
        self._work: dict[str, tuple[float, str]] = {}
        self._printed: set[str] = set()

    def __enter__(self) -> Self:
        """Start the live line."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the live line."""
        if self._live:
            self._live.stop()

    def preparing(self, what: str, done: int, total: int) -> None:
        """Show the progress of a data set's creation or conversion; without a terminal, about ten lines in total."""
        text = f"{what}: {done} of {total}"
        tenth = done * 10 // max(1, total)
        if self._live:
            self._live.update(Text(printable(text)))
        elif self._prepared != (what, tenth):
            self._print(text)
        self._prepared = (what, tenth)

    def readying(self, what: str) -> None:
        """Print the description of a fetch or a preparation."""
        self._print(what)

    def probing(self, batch: int) -> None:
        """Print the batch size that a short run tries."""
        self._print(f"    does a batch of {batch} fit?")

    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None:
        """Print the axis values that a short run tries."""
        values = ", ".join(f"{axis} {value}" for axis, value in axes.items())
        self._print(f"    how fast is {candidate.framework} with {values}?")

    def run_begins(self, case: Case, repeat: int, progress: CampaignProgress) -> None:
        """Print which run starts."""
        self._progress = progress
        self._case, self._pace = case.id, RecentPace()
        self._printed_at = time.monotonic()
        number = f"[{progress.finished + 1}/{progress.at_least}]"
        left = self._clock.left(progress.at_least - progress.finished, progress.left_s)
        self._print(f"{number} {case.id} run {repeat}; {left}")

    def pulse(self, pulse: Heartbeat) -> None:
        """Show the current step of the run, the rate of its last records, and since when it looks steady."""
        self._pace.add(pulse)
        step = f"step {pulse.step}" if pulse.step is not None else "starting"
        if pulse.step is not None and pulse.steps:
            step += f" of {pulse.steps} ({pulse.step / pulse.steps:.0%})"
        silence_s = self._pace.silence_s(pulse.elapsed_s)
        lately = self._lately() if silence_s is None else f", no new step for {silence_s:.0f} s"
        text = f"    {step}{lately}, {pulse.elapsed_s:.0f} s"
        if self._live:
            self._live.update(Text(printable(text)))
        elif time.monotonic() - self._printed_at >= _PULSE_INTERVAL_S:
            self._printed_at = time.monotonic()
            self._print(text)

    def _lately(self) -> str:
        """Return the rate of the last records, and the step since which it looks steady, as parts of a list.

        The rate is in steps per second until a run of the case has shown the work of a step.
        """
        pace, steady = self._pace.steps_per_s, self._pace.steady_from
        work, unit = self._work.get(self._case or "", (1.0, "steps/s"))
        rate = "" if pace is None else f", {short_number(pace * work)} {unit}"
        return rate + ("" if steady is None else f", steady from step {steady}")

    def run_ended(self, result: RunResult, progress: CampaignProgress) -> None:
        """Print the result of the run."""
        self._progress = progress
        if self._case is not None and (work := _work_of_step(result)) is not None:
            self._work[self._case] = work
        if result.duration_s is not None:
            self._clock.durations.append(result.duration_s)
        measured = result.measurement
        if measured is not None:
            new = dict.fromkeys(map(self._new, doubts_of_run(result)))
            doubt = "".join(f"; suspect: {one}" for one in new)
            cpu = result.cpu_s_per_sample
            cost = "" if cpu is None else f"; {cpu:.3g} CPU s per sample"
            number = f"{significant(measured.throughput, 4)} {measured.unit}"
            self._print(f"    {number}{cost}{_inspected(result)}{doubt}")
        else:
            self._print(f"    {result.outcome.label}: {result.reason}")
        if self._live:
            self._live.update(Text(""))

    def _new(self, doubt: Suspicion) -> str:
        """Return the sentence of a doubt, or its code if an earlier run had it, perhaps with other numbers."""
        words = _NUMBERS.sub("", doubt.sentence)
        if words in self._printed:
            return f"{doubt.code}, as before"
        self._printed.add(words)
        return doubt.sentence

    def _print(self, text: str) -> None:
        self._console.print(Text(printable(text)))


def _work_of_step(result: RunResult) -> tuple[float, str] | None:
    """Return the work of one step that a finished run shows, and its unit; None if it shows none."""
    found = result.measurement
    if found is None or found.step_times is None:
        return None
    return found.throughput * found.step_times.mean, found.unit


def short_number(value: float) -> str:
    """Return a number with four digits that count, and blanks between thousands: ``12 843``, ``3.127``."""
    return f"{value:,.0f}".replace(",", " ") if value >= 1000 else f"{value:.4g}"


def _inspected(result: RunResult) -> str:
    """Return how much the gates about the machine looked at, as the end of a sentence.

    If one of them could not look, its reason is a doubt of the run.
    """
    found = result.inspection
    if found is None or found.samples is None or found.seconds is None:
        return ""
    return f"; watched: {found.samples} samples over {found.seconds:.3g} s"


def duration(seconds: float) -> str:
    """Return a duration in human-readable form: ``45 s``, ``12 min``, ``3 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


_LABEL = 12
_NUMBERS = re.compile(r"(?<!\w)\d[\d.]*")
"""The numbers of a sentence, but not those of a name such as ``node02``."""
_NOT_INSTALLED = "No module named 'trainmark'"
"""The end of a program that uses `trainmark.measure`, by a Python without trainmark."""
_NOT_IMPORTED = "does not import"
"""A part of the reason of a run whose Python lacks the framework that its script imports."""
_TOO_SHORT = "the time stamps are too coarse"
"""A part of the reason of a run whose records span too little time for a number."""
_OF_A_SHORT_LOG = frozenset({"few-records", "short-log"})
_OF_A_LOG = frozenset({"guessed", "few-digits", "rates-contradict-clock", "witnesses-disagree"})
"""The doubts about a log that a program which counts its own steps does not have."""
_CLOCKS_DIFFER_S = 1.0
"""Clocks that differ by less are not named on the terminal."""
_MOST_RANKS = 8
"""The largest number of ranks on the terminal."""


def print_command_results(results: Results, directory: Path, found: CommandSuite) -> None:
    """Print each case's number, the machine's share in it, and where everything is stored."""
    several = len(results.cases) > 1
    lines: list[str] = []
    for case in results.cases:
        if several:
            lines += ["", _heading(case)]
        found_here = _findings(results, case.id)
        lines += (
            folded(f"{label:<{_LABEL}}{text}", _LABEL)
            for label, text in (*_case_lines(case, found_here), *_output(case, directory))
        )
    advice = advice_of(results, [*_log_advice(results), *_shorter_runs(results, found)])
    lines += (folded(_of_command(line, directory / COMMAND_SUITE), _LABEL) for line in advice)
    assumed = _labelled("assumed", [*found.assumed, *_assumed_of(results)])
    lines += (folded(line, _LABEL) for line in assumed)
    lines += _labelled("compare", _comparisons(results, directory))
    lines.append(
        f"{'stored in':<{_LABEL}}{directory}; {COMMAND_SUITE} and {COMMAND_CARD} there can be edited and run again"
    )
    sys.stdout.write("\n".join(lines).lstrip("\n") + "\n")


def _labelled(label: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines behind a label, which the first one alone has."""
    for number, line in enumerate(lines):
        yield f"{label if number == 0 else '':<{_LABEL}}{line}"


def _of_command(advice: str, suite: Path) -> str:
    """Return advice about the suite with the file of a command's suite."""
    in_protocol = advice.replace("in the suite's protocol", f"under `protocol` in {suite}")
    return in_protocol.replace("in the suite", f"in {suite}")


def _shorter_runs(results: Results, found: CommandSuite) -> Iterator[str]:
    """Yield how to measure a part of each run, if a call was ended before its first run."""
    if not any(case.runs for case in results.cases) and "stop_after" not in found.card:
        yield "to end each run earlier, add --steps 200 or --seconds 60 before the '--'"


def _heading(case: CaseResult) -> str:
    """Return the id of a case, with its values if one of them is no word of a path (``amp=``, ``lr=1/3``)."""
    shown = {name: value_text(value) for name, value in case.case.options.items()}
    if all(f"-{name}{value}" in case.id and value for name, value in shown.items()):
        return case.id
    return f"{case.id} ({', '.join(f'{name}={value}' for name, value in shown.items())})"


def _assumed_of(results: Results) -> Iterator[str]:
    """Yield what the numbers themselves show to be unknown."""
    units = {case.unit for case in results.cases}
    if STEPS_UNIT in units:
        several = len({case.case.world_size for case in results.cases}) > 1
        work = "'{world_size} * 32', of all devices," if several else "N"
        yield f"steps are counted, because the work of a step is unknown (--work-per-step {work} --unit samples/s)"
    if EPOCHS_UNIT in units:
        yield (
            "epochs are counted, because no line counts steps (--work-per-step N --unit samples/s, where N is an "
            "epoch's samples)"
        )


def _comparisons(results: Results, directory: Path) -> Iterator[str]:
    """Yield the command that compares the values of each option, or of the devices, that vary between the cases."""
    cases = [case.case for case in results.cases]
    devices = {case.devices_per_node for case in cases}
    follows = False
    for name in dict.fromkeys(name for case in cases for name in case.options):
        values = {value_text(case.options.get(name)) for case in cases}
        if len(values) > 1:
            pairs = {(value_text(case.options.get(name)), case.devices_per_node) for case in cases}
            with_devices = len(devices) > 1 and len(pairs) == len(values)
            follows |= with_devices
            more = ("--ignoring", DEVICES) if with_devices else ()
            yield shlex.join(("trainmark", "compare", str(directory), "--axis", name, *more))
    if len(devices) > 1 and not follows:
        yield shlex.join(("trainmark", "compare", str(directory), "--axis", DEVICES))


def advice_of(results: Results, further: Sequence[str] = ()) -> Iterator[str]:
    """Yield the ways out for the cases whose number has no interval because of their machine, and ``further`` ones."""
    found = results.findings.advice if results.findings else ()
    of_machine = (step for advice in found for step in advice.steps)
    yield from _labelled("what to do", dict.fromkeys([*of_machine, *further]))


def _log_advice(results: Results) -> Iterator[str]:
    """Yield the way out for numbers that a log gives only in doubt, or does not give."""
    runs = [run for case in results.cases for run in case.runs]
    measured = [run.measurement for run in runs if run.measurement is not None]
    doubted = any(doubt.code in _OF_A_SHORT_LOG for run in runs for doubt in run.suspicions)
    doubted |= any(_TOO_SHORT in (run.reason or "") for run in runs)
    if doubted:
        yield "let the program train for more steps or epochs: its log has too few records for a reliable number"
    by_log = any(doubt.code in _OF_A_LOG for run in runs for doubt in run.suspicions)
    own_total = any(one.samples is None and not one.measured_steps for one in measured)
    # A run with a unit of its own counts its steps itself.
    without = any(run.outcome is Outcome.INVALID and run.parameters.unit is None for run in runs)
    if doubted or by_log or own_total or without:
        yield (
            "let the program count its own steps: three lines with trainmark.measure, or a callback for Keras, "
            "Lightning or the Hugging Face Trainer (docs/tutorials/measure-your-script.md, step 7)"
        )
    if any(_NOT_IMPORTED in (run.reason or "") for run in runs):
        yield "name the Python that has the framework: trainmark run -- /path/to/its/bin/python SCRIPT"


def _output(case: CaseResult, directory: Path) -> Iterator[tuple[str, str]]:
    """Yield where the output of a program is that failed."""
    failed = next((run for run in case.runs if run.outcome in (Outcome.FAILED, Outcome.INVALID)), None)
    if case.estimate is None and failed is not None:
        yield "output", str(directory / RUNS / case.id / str(failed.repeat) / LOG)


@dataclass(frozen=True, slots=True)
class _Findings:
    """The findings about one case."""

    bound: BoundFinding | None
    per_device: PerDeviceFinding | None
    no_interval: str | None
    """The reason why the number has no interval, if the machine or too few runs are it."""
    requirements: tuple[RequirementFinding, ...] = ()


def _findings(results: Results, case: str) -> _Findings:
    found = results.findings
    if found is None:
        return _Findings(None, None, None)
    return _Findings(
        found.bound(case),
        next((one for one in found.per_device if one.case == case), None),
        next((one.reason for one in found.advice if one.case == case), None),
        tuple(one for one in found.requirements if one.case == case),
    )


def _per_device(found: PerDeviceFinding) -> str:
    within = ""
    if found.low is not None and found.high is not None:
        within = f"  [{significant(found.low)}, {significant(found.high)}]"
    return f"{significant(found.value)}{within}   of {found.devices} devices"


def compare_baseline(path: Path, before: Results, now: Results, directory: Path) -> tuple[bool, str]:
    """Return whether no case is slower than in an earlier result or without a number, and the ratios as text.

    The name of the program may differ, and its framework: both were given as the same measurement. If they cannot be
    compared, the text says that.
    """
    alone = all(len({case.case.framework for case in side.cases}) == 1 for side in (before, now))
    ignoring = ["workload", "framework"] if alone else ["workload"]
    try:
        found = compare([before], now, (str(path), str(directory)), ignoring=ignoring)
    except InputError as error:
        return False, f"{'ratio':<{_LABEL}}none: {error} to trainmark compare {path} {directory}\n"
    lines = []
    for case in found.cases:
        ratio, interval = case.ratio, case.ratio.interval if case.ratio else None
        within = "" if interval is None else f"  [{interval.low:.3f}, {interval.high:.3f}]"
        value = "no ratio" if ratio is None else f"{ratio.value:.3f}{within}"
        why = f" ({case.reason})" if case.reason else ""
        of = f"{case.against}: " if len(found.cases) > 1 else ""
        lines.append(f"{of}{value}   {CHANGES[case.change]}{why}, against {path}")
    lines += [f"differs: {one.what}: {one.baseline} -> {one.candidate}" for one in found.differences]
    return found.holds, "\n".join(_labelled("ratio", lines)) + "\n"


def _case_lines(case: CaseResult, found: _Findings) -> Iterator[tuple[str, str]]:
    measured = measured_runs(case.runs)
    if not measured or case.estimate is None:
        yield "no number", f"{case.outcome.label}: {case.reason or 'no run yet'}"
        if _NOT_INSTALLED in (case.reason or ""):
            yield (
                "what to do",
                "PYTHON -m pip install --no-deps . in a clone of trainmark, with the Python of your program",
            )
        return
    first = _median_run(case.estimate, measured)
    yield first.unit, _number(case.estimate, first, measured)
    if (missed := _missed_target(case)) is not None:
        yield "target", missed
    if found.per_device is not None:
        yield "per device", _per_device(found.per_device)
    if found.bound is not None:
        yield "bound by", bound_line(found.bound)
    if first.step_times is not None:
        times = first.step_times
        yield "step", f"median {times.p50:.4g} s, 99 % below {times.p99:.4g} s"
    yield from _clock(first)
    if first.witnessed:
        yield "log", ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in first.witnessed.items())
    if stand_ins := measured[0].stand_ins:
        yield "data", "; ".join(f"stand-in, {label} ({path})" for path, label in stand_ins.items())
    yield from _machine(measured)
    yield from _energy(measured)
    if (flops := first.model_flops) is not None:
        yield (
            "MFU",
            f"{flops.mfu:.1%} (6 operations for each of {flops.parameters / 1e6:.4g} M parameters, "
            f"{flops.parameters_by}{_attention(flops)}; {flops.peak_by})",
        )
    yield from _ranks(measured)
    yield from _clocks(measured)
    yield from _inspections(measured)
    if case.estimate.interval is None:
        known = case.estimate.no_interval
        why = found.no_interval or (None if known is None else f"the case {known.in_words}")
        if why is not None:
            yield "no interval", why
    yield from _required(found.requirements)
    yield from (("doubt", f"{doubt.sentence} ({code})") for doubt, code in counted_doubts(case, measured))


def _required(found: Sequence[RequirementFinding]) -> Iterator[tuple[str, str]]:
    """Yield the verdict on each requirement of a case."""
    for number, one in enumerate(found):
        yield "required" if number == 0 else "", f"{one.verdict}: {one.in_words} {one.sentence}"


def _median_run(estimate: Estimate, measured: list[RunResult]) -> Measurement:
    """Return the measurement that is nearest to the median over the runs, so that its times fit the number."""
    found = [run.measurement for run in measured if run.measurement is not None]
    return min(found, key=lambda one: abs(one.throughput - estimate.median))


def _missed_target(case: CaseResult) -> str | None:
    """Return why the interval is not as narrow as requested; None if it is, or if no width was requested."""
    found = case.repeats
    if found is None or found.target is None or found.ended_by in (EndedBy.TARGET, EndedBy.EQUAL_RUNS):
        return None
    width = "there is no interval" if found.half_width is None else f"the interval is ±{found.half_width:.1%}"
    more = "" if found.to_target is None else f"; about {found.to_target.runs} runs would reach it"
    runs = sum(run.measurement is not None for run in case.runs)
    disturbed = f", of which {found.spoiled} disturbed" if found.spoiled else ""
    return f"±{found.target:.1%} is not reached by {counted(runs, 'run')}{disturbed}: {width}{more}"


def _ranks(measured: list[RunResult]) -> Iterator[tuple[str, str]]:
    """Yield the ranks of the last run that has logs of several: the slow ones, else the slowest and the fastest."""
    found = next((run.rank_logs for run in reversed(measured) if run.rank_logs is not None), None)
    if found is None:
        return
    for number, one in enumerate(shown_ranks(found, _MOST_RANKS)):
        values = [
            *([f"step {one.step_time_s:.4g} s"] if one.step_time_s is not None else []),
            *([f"data {one.data_time_s:.4g} s"] if one.data_time_s is not None else []),
            *([f"{significant(one.rate)} {found.unit or 'units/s'} printed"] if one.rate is not None else []),
        ]
        on = f" on {one.host}" if one.host else ""
        slower = "" if one.slower_by is None else f" ({one.slower_by:+.1%} against the others)"
        yield "ranks" if number == 0 else "", f"rank {one.rank}{on}: {', '.join(values)}{slower}"
    if len(found.ranks) > _MOST_RANKS:
        yield "", f"and {len(found.ranks) - _MOST_RANKS} other ranks, in {RESULTS}"


def _attention(flops: ModelFlops) -> str:
    """Return how the attention is counted, as a part of the sentence on the MFU."""
    if flops.mfu_causal is None:
        return ", without attention (--layers, --hidden-size, --sequence-length)"
    return (
        f", and 12 L H Q T for full attention with L {flops.layers}, H Q {flops.hidden_size}, T "
        f"{flops.sequence_length}, {flops.shape_by} (PaLM, appendix B); {flops.mfu_causal:.1%} with the causal half"
    )


def _clock(first: Measurement) -> Iterator[tuple[str, str]]:
    """Yield the clock of the number, if the program's own times give another one."""
    if first.printed_throughput is not None:
        off = first.printed_throughput / first.throughput - 1
        why = "leave out a part of it" if off > 0 else "are longer"
        yield (
            "clock",
            "wall time, by the arrival of the lines; the times that the program prints "
            f"{why} ({significant(first.printed_throughput)}, {off:+.1%})",
        )


def _clocks(measured: list[RunResult]) -> Iterator[tuple[str, str]]:
    """Yield the nodes whose clock differs enough to be noticed in the times of their files."""
    ahead = {
        node.host or f"node {node.node}": node.clock_ahead_s
        for run in measured
        for node in run.telemetry
        if node.clock_ahead_s is not None and abs(node.clock_ahead_s) >= _CLOCKS_DIFFER_S
    }
    for number, (host, seconds) in enumerate(ahead.items()):
        way = "ahead of" if seconds > 0 else "behind"
        sentence = f"{host} is {abs(seconds):.4g} s {way} the first node; its window is corrected for that"
        yield "clocks" if number == 0 else "", sentence


def _inspections(measured: list[RunResult]) -> Iterator[tuple[str, str]]:
    """Yield how much the gates about the machine looked at, in the run with the fewest samples."""
    found = [run.inspection for run in measured if run.inspection is not None]
    whole = [one for one in found if one.is_whole and one.samples is not None and one.seconds is not None]
    if whole:
        least = min(whole, key=lambda one: one.samples or 0)
        yield (
            "watched",
            f"{least.samples} samples over {least.seconds:.3g} s, in {len(whole)} of {counted(len(found), 'run')}",
        )


def _number(estimate: Estimate, first: Measurement, measured: list[RunResult]) -> str:
    interval = estimate.interval
    within = "" if interval is None else f"  [{significant(interval.low)}, {significant(interval.high)}]"
    runs = f"{estimate.n} run{'s' if estimate.n != 1 else ''}"
    records = (
        _records([run.measurement for run in measured if run.measurement is not None])
        if first.measured_steps
        else "the program's own figure for its whole training, warm-up included"
    )
    steady = {True: "steady", False: "not steady", None: "steadiness not known"}[first.steadiness.steady]
    pauses = "" if first.paused_s is None else f", {first.paused_s:.3g} s of it pauses that are left out"
    wall = "" if first.window_s is None else f", {first.window_s:.3g} s of wall time{pauses}"
    return f"{significant(estimate.median)}{within}   {runs}, {records}, {steady}{wall}"


def _records(found: list[Measurement]) -> str:
    """Return how many records the runs measured, and after how many; the least and the most if they differ."""
    used, skipped = {one.measured_steps for one in found}, {one.warmup_steps for one in found}
    if len(used) == len(skipped) == 1:
        return f"{counted(min(used), 'record')} each after {min(skipped)}"
    return f"{_range(used)} records after {_range(skipped)}"


def _range(numbers: set[int]) -> str:
    return str(min(numbers)) if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)}"


def _energy(measured: list[RunResult]) -> Iterator[tuple[str, str]]:
    """Yield the energy for one unit of work, by counters over the window."""
    found = energy_finding("", [run.energy for run in measured])
    if found is None:
        return
    interval = found.interval
    within = "" if interval is None else f"  [{joules_text(interval.low)}, {joules_text(interval.high)}]"
    of = "GPUs" if found.source is EnergySource.GPUS else "processors, with everything that runs on them"
    yield (
        "energy",
        f"{joules_text(found.per_unit_j)} for each {found.unit}{within}, {found.watts:.0f} W ({of})",
    )


def _machine(measured: list[RunResult]) -> Iterator[tuple[str, str]]:
    nodes = [node for run in measured for node in run.telemetry]
    windows = [node.seconds for node in nodes if node.samples]
    if not windows:
        return
    busy = [node.cpu_tree_mean for node in nodes if node.cpu_tree_mean is not None]
    others = [node.cpu_other_mean for node in nodes if node.cpu_other_mean is not None]
    if busy and others:
        share = f"{sum(busy) / len(busy):.0%} by the program, {sum(others) / len(others):.0%} by others"
        samples = sum(node.samples for node in nodes)
        yield "CPU", f"{share} ({samples} samples in the windows)"
    memory = [node.tree_rss_bytes_max for node in nodes if node.tree_rss_bytes_max is not None]
    if memory:
        yield "memory", f"{max(memory) / 2**30:.3g} GiB resident"
    for gpu in (gpu for gpu in nodes[0].gpus if gpu.utilisation_mean):
        used = gpu.memory_used_bytes_max
        figures = {
            "{:.0f} W": gpu.power_w_mean,
            "{:.0f} MHz": gpu.sm_clock_mhz_mean,
            "{:.0%} busy": gpu.utilisation_mean,
            "{:.3g} GiB": None if used is None else used / 2**30,
        }
        words = (text.format(figure) for text, figure in figures.items() if figure is not None)
        yield f"GPU {gpu.index}", ", ".join((gpu.name or f"GPU {gpu.index}", *words))


_LONGEST_REASON = 120
"""Characters of a reason in the last line of a run."""


def retry_advice(results: Results) -> str:
    """Return one line on the failed runs and how to repeat them; empty if there are none."""
    failed = [(case, run) for case in results.cases for run in case.runs if run.outcome.is_retried]
    if not failed:
        return ""
    case, run = failed[0]
    # The whole reason was printed when the run ended.
    reason = run.reason or ""
    reason = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
    runs = f"run {run.repeat} of {case.id} gave no number ({run.outcome}, {reason})"
    more = f", nor did {counted(len(failed) - 1, 'other run')}" if len(failed) > 1 else ""
    again = shlex.join(shlex.split(results.command or "trainmark run"))
    them = "them" if len(failed) > 1 else "it"
    return f"{runs}{more}; repeat {them} with: {again} --retry-failed\n"


def exit_reason(results: Results) -> str:
    """Return why the exit code is 1 where no run failed, and what is required and not shown; empty if it is 0."""
    return (_nothing_to_run(results) or _work_in_doubt(results)) + _unmet(results)


def _unmet(results: Results) -> str:
    """Return one line on what the suite requires and the results do not show; empty if all of it is met."""
    unmet = results.findings.unmet if results.findings is not None else ()
    if not unmet:
        return ""
    first = unmet[0]
    more = f"; {counted(len(unmet) - 1, 'more requirement')} not met" if len(unmet) > 1 else ""
    return f"exit code 1: {first.in_words} of {first.case} is {first.verdict}: {first.sentence}{more}\n"


def _nothing_to_run(results: Results) -> str:
    """Return one line on why every case is unsupported; empty if one was run."""
    if not results.cases or any(case.outcome is not Outcome.UNSUPPORTED for case in results.cases):
        return ""
    reasons = dict.fromkeys(case.reason for case in results.cases)
    others = "" if len(reasons) == 1 else f" (and {counted(len(reasons) - 1, 'other reason')}, see above)"
    return f"exit code 1: no case can run here: {next(iter(reasons))}{others}\n"


def _work_in_doubt(results: Results) -> str:
    """Return one line on the cases whose work is in doubt, which is why the exit code is 1; empty if there are none."""
    cases = {case.id: doubts for case in results.cases if (doubts := _doubts_of_work(case))}
    if not cases:
        return _unequal_work(results)
    first, doubts = next(iter(cases.items()))
    more = f" and of {counted(len(cases) - 1, 'other case')}" if len(cases) > 1 else ""
    return f"exit code 1: the work of {first}{more} is not certain ({', '.join(doubts)})\n"


def _unequal_work(results: Results) -> str:
    """Return one line on a certificate of equal work that does not hold; empty if all do."""
    first = next(iter(failing(results.certificates)), None)
    if first is None:
        return ""
    variants = {
        f"{party.framework} ({', '.join(variant.way)})": variant.absent
        for party in first.parties
        for variant in party.variants
        if variant.absent is not None
    }
    unchecked = {**first.absent, **variants}
    if not unchecked:
        return f"exit code 1: the frameworks do not do equal work on {first.model}; see 'Equal work' in the report\n"
    framework, reason = next(iter(unchecked.items()))
    return (
        f"exit code 1: it could not be checked whether {framework} does equal work on {first.model}: {reason}; "
        "--resume tries again if time or memory was lacking\n"
    )


def _doubts_of_work(case: CaseResult) -> tuple[str, ...]:
    """Return the codes of the doubts about the work of a case's runs."""
    doubts = (doubt for run in case.runs for doubt in run.suspicions)
    return tuple(dict.fromkeys(doubt.code for doubt in doubts if doubt.about is About.WORK))
