"""A framework's trace, read: lanes of work, and the stretch of time of the profiled steps."""

from collections.abc import Sequence
from typing import NamedTuple

from trainmark.errors import TrainmarkError
from trainmark.profiles.timeline import Interval

STEPS = "trainmark.steps"
"""The span around all profiled steps, with an idle device at both ends."""


class TraceError(TrainmarkError):
    """A trace that cannot be read, or that has no profiled steps."""


class Trace(NamedTuple):
    """The lanes of a trace, and the stretch of its profiled steps, in seconds of the trace's clock."""

    framework: str
    device: str
    lanes: Sequence[Sequence[Interval]]
    start: float
    end: float
