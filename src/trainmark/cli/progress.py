"""Progress of a running suite on stderr: a live line on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trainmark.campaign import Progress as CampaignProgress
from trainmark.execution import Heartbeat
from trainmark.insight.findings import with_causes
from trainmark.node import RecentPace
from trainmark.printable import printable, significant, unfiltered
from trainmark.schema.case import Case
from trainmark.schema.measurement import Suspicion
from trainmark.schema.results import RunResult

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
        text = f"    {step}{self._lately()}, {pulse.elapsed_s:.0f} s"
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
            doubts = with_causes(result, result.suspicions)
            doubt = "".join(f"; suspect: {self._new(doubt)}" for doubt in doubts)
            cpu = result.cpu_s_per_sample
            cost = "" if cpu is None else f"; {cpu:.3g} CPU s per sample"
            self._print(
                f"    {significant(measured.throughput, 4)} {measured.unit}{cost}{_inspected(result)}{doubt}"
            )
        else:
            self._print(f"    {result.outcome.label}: {result.reason}")
        if self._live:
            self._live.update(Text(""))

    def _new(self, doubt: Suspicion) -> str:
        """Return the sentence of a doubt, or its code if the sentence was printed for an earlier run."""
        if doubt.sentence in self._printed:
            return f"{doubt.code}, as before"
        self._printed.add(doubt.sentence)
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
