"""The documents of a profile: the time of a training step by kind of operation."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from trainmark.schema.frozen import Frozen
from trainmark.schema.outcome import Outcome


class WorkKind(StrEnum):
    """The kinds of work that share a step's time; see docs/how-to/profile.md."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    NORMALISATION = "normalisation"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    COPY = "copy"
    OPTIMIZER = "optimizer"
    OTHER = "other"
    """An operation with a name that no pattern knows."""
    COMMUNICATION = "communication"
    """Exposed: nothing but communication runs."""
    DATA_WAIT = "data-wait"
    """No operation runs, and the program fetches its next batch."""
    IDLE = "idle"
    """No operation runs: the host prepares the next one, or waits."""


class Operation(Frozen):
    """One operation's name and kind, and its own seconds in one step."""

    name: str
    kind: WorkKind
    seconds: float


class StepProfile(Frozen):
    """The mean profiled step of one rank: ``kinds`` are seconds that add up to ``step_s``, the trace's time of a step.

    ``communication_hidden_s`` and ``copy_hidden_s`` are the seconds of a step in which other work ran at the same time;
    they are not part of the sum. ``operations`` are the most expensive ones. ``device`` is where they ran: ``cuda`` or
    ``cpu``.
    """

    framework: str
    device: str
    steps: int
    step_s: float
    kinds: Mapping[WorkKind, float]
    communication_hidden_s: float = 0.0
    copy_hidden_s: float = 0.0
    operations: tuple[Operation, ...] = ()


class CaseProfile(Frozen):
    """The profiled run of a case, which is no measurement: it is in no median, and no window contains it.

    ``profile`` is null unless the outcome is ``ok``. ``clock_step_s`` is the profiled step by the program's own clock,
    ``plain_step_s`` the same process' step before its profiler started: the profiler's cost is their difference.
    ``directory`` is relative to the result directory, ``traces`` to ``directory``.
    """

    outcome: Outcome
    reason: str | None = None
    directory: str
    profile: StepProfile | None = None
    clock_step_s: float | None = None
    plain_step_s: float | None = None
    traces: tuple[str, ...] = Field(default=())
