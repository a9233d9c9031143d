"""Ending a run on purpose, once its log shows enough."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trainmark.campaign.log_measurement import RunLog, read_run_log
from trainmark.logs import ParsedLog
from trainmark.measure.gate_checks import MIN_PERIODS
from trainmark.node import Heartbeat, Watch
from trainmark.node.telemetry import INTERVAL_S
from trainmark.schema.names import LOG
from trainmark.schema.outcome import Outcome
from trainmark.workload import Card

LEAST_WINDOW_S = 2 * MIN_PERIODS * INTERVAL_S
"""The least seconds of a window that is ended on purpose: twice what the gates need to look at the machine."""

_READ_EVERY_S = 1.0
_READ_SHARE = 0.02
"""The largest share of the time that is spent on reading the log during a run."""


@dataclass(slots=True)
class StopWatch:
    """A watch that ends a run as its card's ``stop_after`` says, and else as ``inner`` does."""

    card: Card
    folder: Path
    inner: Watch
    _next_read_s: float = field(default=0.0)

    def __call__(self, pulse: Heartbeat) -> tuple[Outcome, str] | None:
        """Return the end of the run by ``inner`` or on purpose, or None."""
        if (ended := self.inner(pulse)) is not None:
            return ended
        stop = self.card.stop_after
        if stop is None:
            return None
        if stop.seconds is not None and pulse.elapsed_s >= stop.seconds:
            return Outcome.OK, f"ended on purpose after {stop.seconds:g} s"
        if pulse.elapsed_s < self._next_read_s:
            return None
        if stop.steps is not None and self._shows(stop.steps, lambda log: steps_shown(log.parsed), pulse):
            return Outcome.OK, f"ended on purpose after {stop.steps} steps"
        if stop.epochs is not None and self._shows(stop.epochs, epochs_shown, pulse):
            return Outcome.OK, f"ended on purpose after {stop.epochs} epochs"
        return None

    def _shows(self, wanted: int, shown: Callable[[RunLog], int], pulse: Heartbeat) -> bool:
        """Return whether the log shows so many steps or epochs.

        Fast steps go on until the measured ones last long enough for samples of the machine.
        """
        began = time.monotonic()
        # A program may have put a pipe in its place, which would block.
        if not (self.folder / LOG).is_file():
            return False
        try:
            log = read_run_log(self.card, self.folder)
            enough = shown(log) >= wanted and not _is_short(log, self.card.skip)
        except OSError:
            enough = False
        took = time.monotonic() - began
        self._next_read_s = pulse.elapsed_s + max(_READ_EVERY_S, took / _READ_SHARE)
        return enough


def _is_short(log: RunLog, skip: int | None) -> bool:
    """Return whether the records after the warm-up arrived within less than ``LEAST_WINDOW_S``; False if unknown."""
    times = log.times()
    if times is None:
        return False
    first = max(0, (log.parsed.warmup_records if skip is None else skip) - 1)
    return first < len(times) and float(times[-1] - times[first]) < LEAST_WINDOW_S


def steps_shown(log: ParsedLog) -> int:
    """Return the number of steps that the records of a log cover."""
    counted = log.records.step
    if not log.records.count:
        return 0
    if counted is None or log.counts_samples or log.restarts:
        return log.records.count * log.step_interval
    first, last = (float(counted.array(at, at + 1)[0]) for at in (0, log.records.count - 1))
    # A counter that begins anew with each epoch shows less than the number of records.
    return max(int(last - first) + log.step_interval, log.records.count)


def epochs_shown(log: RunLog) -> int:
    """Return the number of whole epochs that the records of a log cover; 0 if it does not count them.

    A record without a step is one of a whole epoch if it has the epoch's number or stands under its heading. An epoch
    with steps is over when the next one begins.
    """
    records = log.parsed.records
    if records.epoch is None:
        headed = log.known is not None and log.known.heading is not None
        return records.count if headed and records.step is None else 0
    started = len(np.unique(records.epoch.array()))
    return started if records.step is None else started - 1
