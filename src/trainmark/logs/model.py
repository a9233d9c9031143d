"""What reading a log gives: facts about the run, columns of records, the tool's own figures, and problems."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from trainmark.schema.case import Precision
from trainmark.schema.parameters import Parameters

if TYPE_CHECKING:
    from trainmark.logs.columns import Column


class Status(StrEnum):
    """What came of reading one log. Only ``OK`` can carry a throughput."""

    OK = "ok"
    OOM = "oom"  # the run ended for want of memory
    FAILED = "failed"  # the run ended in an error
    INVALID = "invalid"  # the log contradicts itself, or holds more than one run
    INCOMPLETE = "incomplete"  # too little for a number: no record, only warm-up, or a fact is missing
    UNKNOWN = "unknown"  # text of no known format
    EMPTY = "empty"
    UNREADABLE = "unreadable"  # a binary, a broken archive, no permission


class Severity(StrEnum):
    """How much a problem weighs: a ``DOUBT`` makes the number suspect, a ``NOTE`` only informs."""

    NOTE = "note"
    DOUBT = "doubt"

    @classmethod
    def of_effect(cls, share: float) -> "Severity":
        """Return how much something weighs that moves the number by ``share``: no note moves it by more than 5 %."""
        return cls.DOUBT if abs(share) > MOST_OF_A_NOTE else cls.NOTE


MOST_OF_A_NOTE = 0.05
"""By what share a thing may move the number that is only noted."""


class Scope(StrEnum):
    """Whose rate one printed rate is."""

    DEVICE = "device"
    NODE = "node"
    GLOBAL = "global"


class Meaning(StrEnum):
    """What one printed rate averages over."""

    INTERVAL = "interval"  # exactly the steps since the record before
    RUNNING = "running"  # everything since the start of the epoch
    SAMPLED = "sampled"  # one step out of the interval


class Ending(StrEnum):
    """Whether the run is seen to come to its end in the log."""

    SEEN = "seen"
    MISSING = "missing"  # the format prints its end, and it is not there
    STOPPED = "stopped"  # stopped from outside on purpose (a signal, Ctrl-C)
    UNKNOWABLE = "unknowable"  # the format prints nothing by which the end can be known


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that a reader of the number must know: a stable ``code`` and a sentence."""

    code: str
    message: str
    severity: Severity = Severity.DOUBT


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the run; ``None`` is "not said".

    ``batch_per_device`` counts samples (or tokens) of one device in one micro-batch; ``accumulation`` is the number of
    micro-batches in one printed step. ``hardware`` is the device's name as printed. A log that tells only its own
    node's devices has them in ``gpus_per_node``; ``gpus`` counts all nodes. ``global_batch`` is what one printed step
    holds over all devices, where the log says that itself.
    """

    model: str | None = None
    precision: Precision | None = None
    nodes: int | None = None
    gpus: int | None = None
    batch_per_device: int | None = None
    accumulation: int | None = None
    hardware: str | None = None
    gpus_per_node: int | None = None
    global_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One training record, in the scope in which it was printed; ``None`` where the line has no such field.

    ``rate`` is in units per second, ``step_time_s`` the seconds of one step, ``samples`` the units that the
    whole record covers, ``clock_s`` a wall clock or elapsed time in seconds. ``average_rate`` and ``average_time_s``
    are what is printed beside them of all steps since the epoch's start.
    """

    epoch: int | None
    step: int | None
    rate: float | None
    step_time_s: float | None
    samples: float | None
    clock_s: float | None
    average_rate: float | None = None
    average_time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Records:
    """The training records of one rank as columns of equal length; a field that no line has is ``None``.

    Columns hold 8 bytes a value and go to a temporary file when they grow (``trainmark.logs.columns``).
    """

    count: int = 0
    epoch: "Column | None" = None
    step: "Column | None" = None
    rate: "Column | None" = None
    step_time_s: "Column | None" = None
    samples: "Column | None" = None
    clock_s: "Column | None" = None
    average_rate: "Column | None" = None
    average_time_s: "Column | None" = None

    def rows(self) -> Iterator[Record]:
        """Yield the records one by one (slow: for looking, not for computing)."""
        names = (
            "epoch",
            "step",
            "rate",
            "step_time_s",
            "samples",
            "clock_s",
            "average_rate",
            "average_time_s",
        )
        columns = [getattr(self, name) for name in names]
        values = [iter(column) if column is not None else None for column in columns]
        for _ in range(self.count):
            row = [None if value is None else next(value) for value in values]
            row = [None if cell is None or math.isnan(cell) else cell for cell in row]
            epoch, step = (None if cell is None else int(cell) for cell in row[:2])
            yield Record(epoch, step, *row[2:])


@dataclass(frozen=True, slots=True)
class Restart:
    """A run that died went on from a checkpoint into the same log.

    ``record`` is the place (from 0) of its first record afterwards, ``before`` and ``after`` are the epoch and step of
    the record before it and of it (0 where a log does not count them). Its epoch ends before the record ``until``. One
    that is ``fresh`` went on at an epoch's start, so that averages since that start are of the steps that are counted.
    """

    record: int
    before: tuple[float, float]
    after: tuple[float, float]
    until: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class RunWords:
    """What a run of our own says of itself: its parameters, and what holds for the whole run."""

    parameters: Parameters
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """One log, read.

    ``figures`` are the tool's own results as printed: ``summary``, ``table`` (units/s, whole run). ``parameters`` is
    what the program printed of its own recipe, as words. ``warmup_steps`` is how many steps the format's default
    window leaves out. ``clock_resolution_s`` is the grain of ``records.clock_s``. ``step_interval`` is the usual
    number of steps a record; with ``accumulates`` a printed step is several micro-batches, ``facts.accumulation`` of
    them. A running average printed at step ``n`` is of ``n - averages_from`` steps. With ``counts_samples`` the
    counter of the records counts samples of all devices. With ``of_last_steps`` a record may be of the last steps of
    its interval only; ``epoch_seconds`` is what the program says that its epochs took, without validation.
    ``contested`` names the facts on which the reader of the log contradicts the log; no number may be built on them.
    ``restarts`` are where the counter goes back, as after a crash; ``usual_batch`` is the global batch that most
    records have, where it changes between them. ``run_words`` are there for a run of our own, which says its measured
    window itself.
    """

    log: str
    status: Status
    format: str | None = None
    framework: str | None = None
    unit: str | None = None
    scope: Scope = Scope.GLOBAL
    meaning: Meaning = Meaning.INTERVAL
    ending: Ending = Ending.UNKNOWABLE
    facts: Facts = field(default_factory=Facts)
    records: Records = field(default_factory=Records)
    figures: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    warmup_steps: int = 20
    clock_resolution_s: float = 1.0
    step_interval: int = 1
    accumulates: bool = False
    averages_from: int = 0
    counts_samples: bool = False
    of_last_steps: bool = False
    epoch_seconds: Mapping[int, float] = field(default_factory=dict)
    contested: frozenset[str] = frozenset()
    restarts: tuple[Restart, ...] = ()
    usual_batch: float | None = None
    problems: tuple[Problem, ...] = ()
    run_words: RunWords | None = None

    @property
    def global_batch(self) -> int | None:
        """Samples of one printed step over all devices, where the log (or its reader) says enough."""
        facts = self.facts
        if facts.global_batch is not None:
            return facts.global_batch
        if (
            facts.batch_per_device is None
            or facts.gpus is None
            or (self.accumulates and not facts.accumulation)
        ):
            return None
        return facts.batch_per_device * facts.gpus * (facts.accumulation if self.accumulates else 1)  # type: ignore[operator]
