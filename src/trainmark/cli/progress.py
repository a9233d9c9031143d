"""How a running suite shows itself: a live line on a terminal, plain lines elsewhere; always on stderr."""

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
from trainmark.execution import Pulse
from trainmark.schema.case import Case
from trainmark.schema.results import RunResult

_QUIET_S = 15.0
"""Without a terminal, a running run says at most this often that it lives."""


@dataclass(slots=True)
class _Clock:
    """How long runs take, for the time that is left."""

    began: float
    durations: list[float] = field(default_factory=list)

    def left(self, runs: int) -> str:
        """Return the time that ``runs`` more runs will take, from those that are done."""
        if not self.durations:
            return "time left: not known yet"
        seconds = runs * sum(self.durations) / len(self.durations)
        return f"about {duration(seconds)} left"


class ProgressPrinter:
    """Shows a campaign on a stream; use it as a context."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stderr
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, transient=True) if stream.isatty() else None
        self._clock = _Clock(time.monotonic())
        self._progress = CampaignProgress(0, 0)
        self._said = 0.0
        self._prepared: tuple[str, int] = ("", -1)

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""
        if self._live:
            self._live.stop()

    def preparing(self, what: str, done: int, total: int) -> None:
        """Say how far the making or converting of a data set is, about ten times in all without a terminal."""
        text = f"{what}: {done} of {total}"
        tenth = done * 10 // max(1, total)
        if self._live:
            self._live.update(Text(text))
        elif self._prepared != (what, tenth):
            self._say(text)
        self._prepared = (what, tenth)

    def readying(self, what: str) -> None:
        """Say what is fetched or prepared."""
        self._say(what)

    def probing(self, batch: int) -> None:
        """Say which batch is tried."""
        self._say(f"    does a batch of {batch} fit?")

    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None:
        """Say with which values a case is tried."""
        said = ", ".join(f"{axis} {value}" for axis, value in axes.items())
        self._say(f"    how fast is {candidate.framework} with {said}?")

    def run_begins(self, case: Case, repeat: int, progress: CampaignProgress) -> None:
        """Name the run that starts."""
        self._progress = progress
        self._said = time.monotonic()
        number = f"[{progress.finished + 1}/{progress.at_least}]"
        left = self._clock.left(progress.at_least - progress.finished)
        self._say(f"{number} {case.id} run {repeat}; {left}")

    def pulse(self, pulse: Pulse) -> None:
        """Show where the run is."""
        step = f"step {pulse.step}" if pulse.step is not None else "starting"
        text = f"    {step}, {pulse.elapsed_s:.0f} s"
        if self._live:
            self._live.update(Text(text))
        elif time.monotonic() - self._said >= _QUIET_S:
            self._said = time.monotonic()
            self._say(text)

    def run_ended(self, result: RunResult, progress: CampaignProgress) -> None:
        """Say what became of the run."""
        self._progress = progress
        if result.duration_s is not None:
            self._clock.durations.append(result.duration_s)
        measured = result.measurement
        if measured is not None:
            doubt = "".join(f"; suspect: {doubt.sentence}" for doubt in result.suspicions)
            self._say(f"    {measured.throughput:.4g} {measured.unit}{doubt}")
        else:
            self._say(f"    {result.outcome.label}: {result.reason}")
        if self._live:
            self._live.update(Text(""))

    def _say(self, text: str) -> None:
        self._console.print(Text(text))


def duration(seconds: float) -> str:
    """Return a length of time in words a person reads at a glance: ``45 s``, ``12 min``, ``3 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
