"""Result of reading a log: facts about the run and its device, columns of records, the tool's own figures, problems."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmark.schema.precision import Precision

if TYPE_CHECKING:
    from trainmark.logs.columns import Column
    from trainmark.schema.measurement import Parameters


SEVERAL_RUNS = "several-runs"
"""The code of a log that has records of several runs."""

MOST_OF_A_NOTE = 0.05
"""Largest share by which the cause of a note may change the number."""
_NAMES = re.compile(
    rb"\b((?:Tesla|NVIDIA|GeForce|Quadro) [A-Z][\w-]*(?: \d[\w-]*)?(?:-\w+)*|[VAHP]\d{2,3}-(?:SXM|PCIE)\w*(?:-\w+)*)"
)
_WORDS = (b"Tesla", b"NVIDIA", b"GeForce", b"Quadro", b"-SXM", b"-PCIE")
"""Words of which each name has one: searching them is twenty times faster than searching the names."""
_MAKERS = frozenset({"nvidia", "tesla", "geforce", "quadro"})
_CAPABILITY_WORDS = "compute capability"
_CAPABILITY = re.compile(rb"Compute Capability: (\d+)\.\d")
_AMPERE_OR_LATER = re.compile(
    r"\b(?:A\d{1,3}|H\d{2,3}|B\d{2,3}|GB\d{3}|L\d{1,2}S?|RTX [3-6]0|RTX A\d)|capability ([89]|\d\d)"
)
_BEFORE_AMPERE = re.compile(r"\b(?:V100|P\d{1,3}|K\d{2}|T4|M\d{2}|GTX|TITAN|RTX 20)|capability [3-7]\b")


PARTIAL_BATCHES = "partial-batches"
"""The code of the doubt that the last step of an epoch has fewer samples than the batch that the log prints."""


class Status(StrEnum):
    """Outcome of reading one log. Only ``OK`` and ``GUESSED`` can carry a throughput."""

    OK = "ok"
    GUESSED = "guessed"  # an unknown program: the number rests on assumptions
    OOM = "oom"  # the run ran out of memory
    FAILED = "failed"  # the run ended with an error
    INVALID = "invalid"  # the log contradicts itself, or contains more than one run
    INCOMPLETE = "incomplete"  # too little for a number: no record, only warm-up, or a missing fact
    UNKNOWN = "unknown"  # no known format
    EMPTY = "empty"
    UNREADABLE = "unreadable"  # a binary, a broken archive, no permission


class Severity(StrEnum):
    """Weight of a problem: a ``DOUBT`` makes the number suspect, a ``NOTE`` only informs."""

    NOTE = "note"
    DOUBT = "doubt"

    @classmethod
    def of_effect(cls, share: float) -> "Severity":
        """Return the severity of an effect that changes the number by ``share``: above 5 % it is a doubt."""
        return cls.DOUBT if abs(share) > MOST_OF_A_NOTE else cls.NOTE


class Scope(StrEnum):
    """The devices that a printed rate covers."""

    DEVICE = "device"
    NODE = "node"
    GLOBAL = "global"


class Meaning(StrEnum):
    """The steps that a printed rate averages over."""

    INTERVAL = "interval"  # exactly the steps since the previous record
    RUNNING = "running"  # all steps since the start of the epoch
    SAMPLED = "sampled"  # one step of the interval
    RUNNING_OR_INTERVAL = "running or interval"  # of a format; the time stamps of a log decide


class EndState(StrEnum):
    """State of the log's end: the end of the run, or an earlier point."""

    FOUND = "found"
    MISSING = "missing"  # the format prints the end of a run, but the log does not have it
    STOPPED = "stopped"  # stopped on purpose by a signal or Ctrl-C
    UNKNOWN = "unknown"  # the format prints nothing at the end of a run


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that the reader of a number must know: a stable ``code`` and a sentence.

    ``last_record`` is the number of the last record that it is about (from 1), if it is about single records: it does
    not matter to a number that leaves them out.
    """

    code: str
    message: str
    severity: Severity = Severity.DOUBT
    last_record: int | None = None


class Witness(NamedTuple):
    """One way to the throughput that a log allows, independent of the others.

    ``value`` is in the log's unit over all devices, ``how`` the formula in words: ``512 samples / 0.595 s``.
    """

    name: str
    value: float
    how: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Known facts about the run; ``None`` means "not logged".

    ``batch_per_device`` counts samples (or tokens) of one device in one micro-batch; ``accumulation`` is the number of
    micro-batches in one printed step. ``hardware`` is the device's name as printed. ``gpus_per_node`` holds the devices
    of a log that reports only its own node; ``gpus`` counts all nodes. ``global_batch`` is the number of samples of one
    printed step over all devices, if the log reports it. ``sequence_length`` is the number of tokens of one sample.
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
    sequence_length: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One training record, in the scope in which it was printed; ``None`` for a field that the line lacks.

    ``rate`` is in units per second, ``step_time_s`` the seconds of one step, ``samples`` the units that the
    whole record covers, ``clock_s`` a wall clock or elapsed time in seconds. ``average_rate`` and ``average_time_s``
    are the averages over all steps since the epoch's start that the same line prints. ``data_time_s`` is the part of a
    step in which it waited for its batch. ``consumed`` is the units of all devices since the start of the run.
    """

    epoch: int | None
    step: int | None
    rate: float | None
    step_time_s: float | None
    samples: float | None
    clock_s: float | None
    average_rate: float | None = None
    average_time_s: float | None = None
    data_time_s: float | None = None
    consumed: float | None = None


@dataclass(frozen=True, slots=True)
class Records:
    """The training records of one rank as columns of equal length; ``None`` for a field that no line has.

    Columns take 8 bytes per value and move to a temporary file when they grow (``trainmark.logs.columns``).
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
    data_time_s: "Column | None" = None
    consumed: "Column | None" = None

    def rows(self) -> Iterator[Record]:
        """Yield the records one by one (slow: for inspection, not for computing)."""
        names = (
            "epoch",
            "step",
            "rate",
            "step_time_s",
            "samples",
            "clock_s",
            "average_rate",
            "average_time_s",
            "data_time_s",
            "consumed",
        )
        columns = [getattr(self, name) for name in names]
        values = [iter(column) if column is not None else None for column in columns]
        for _ in range(self.count):
            row = [None if value is None else next(value) for value in values]
            row = [None if cell is None or math.isnan(cell) else cell for cell in row]
            epoch, step = (None if cell is None else int(cell) for cell in row[:2])
            yield Record(epoch, step, *row[2:])


class RankRecords(NamedTuple):
    """The records that one rank printed into a log of several."""

    rank: int
    records: Records


class Restart(NamedTuple):
    """A restart from a checkpoint that continues in the same log.

    ``record`` is the index (from 0) of the first record after it, ``before`` and ``after`` are the epoch and step of
    the previous record and of this one (0 if the log does not count them). Its epoch ends before the record ``until``.
    A ``fresh`` restart begins at an epoch's start, so averages since that start cover exactly the counted steps.
    """

    record: int
    before: tuple[float, float]
    after: tuple[float, float]
    until: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class OwnRun:
    """The parameters and the whole-run summary that a trainmark run reports in its events."""

    parameters: "Parameters"
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """The content of one log.

    ``figures`` are the tool's own results as printed: ``summary``, ``table`` (units/s, whole run). ``parameters`` are
    the settings that the program printed, as strings. ``warmup_steps`` is the number of steps that the format's default
    window leaves out. ``clock_resolution_s`` is the resolution of ``records.clock_s``,
    ``figure_rounding`` the share by which rounding may change the printed figures. ``step_interval`` is the usual
    number of steps per record; with ``accumulates`` a printed step has ``facts.accumulation`` micro-batches. A running
    average printed at step ``n`` covers ``n - averages_from`` steps. With ``counts_samples`` the counter of the records
    counts samples of all devices. With ``of_last_steps`` a record may cover only the last steps of its interval;
    ``epoch_seconds`` are the durations of the epochs, without validation, as the program prints them. ``contested``
    names the facts on which the user's flags contradict the log; no number may be computed from them. ``restarts`` are
    the records at which the counter goes back, as after a crash; ``usual_batch`` is the global batch of most records,
    if it changes between them. ``own_run`` is set for a trainmark run, which reports its measured window.
    ``witnesses`` are the ways to the number that only the format's own reader knows. ``tagged_ranks`` assembles the
    records of each rank with a tag, none if fewer than two have one.
    """

    log: str
    status: Status
    format: str | None = None
    framework: str | None = None
    unit: str | None = None
    scope: Scope = Scope.GLOBAL
    meaning: Meaning = Meaning.INTERVAL
    end_state: EndState = EndState.UNKNOWN
    facts: Facts = field(default_factory=Facts)
    records: Records = field(default_factory=Records)
    figures: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    warmup_steps: int = 20
    clock_resolution_s: float = 1.0
    figure_rounding: float = 0.0
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
    own_run: OwnRun | None = None
    witnesses: tuple[Witness, ...] = ()
    tagged_ranks: Callable[[], tuple[RankRecords, ...]] = field(default=tuple, compare=False, repr=False)

    def problems_after(self, left_out: int) -> tuple[Problem, ...]:
        """Return the problems without those that are only about the first ``left_out`` records."""
        return tuple(p for p in self.problems if p.last_record is None or p.last_record > left_out)

    @property
    def uses_clock(self) -> bool:
        """True if the number is steps over time stamps: no record has a rate or time of all its steps."""
        records = self.records
        return self.meaning is not Meaning.INTERVAL or records.rate is records.step_time_s is None

    @property
    def warmup_records(self) -> int:
        """Number of records in the format's warm-up; lines that are missing there count as well."""
        usual = -(-self.warmup_steps // self.step_interval)
        records = self.records
        averaged = records.average_rate is not None or records.average_time_s is not None
        if records.step is None or usual < 2 or averaged or self.uses_clock:
            return usual
        passed = records.step.array(0, usual + 1)
        passed = passed - passed[0] >= self.warmup_steps
        first = int(passed.argmax()) if passed.any() else usual
        # A single counter that is wrong does not end the warm-up.
        return min(first, usual) if passed[first:].all() and len(passed) > first + 1 else usual

    @property
    def global_batch(self) -> int | None:
        """Samples of one printed step over all devices; ``None`` if a factor is unknown."""
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


def read_hardware(text: bytes) -> str | None:
    """Return the device's name as printed in ``text``, or its compute capability, or ``None``."""
    named = any(word in text for word in _WORDS)
    for name in _NAMES.findall(text) if named else []:
        word = name.decode("ascii", "replace")
        if _AMPERE_OR_LATER.search(word) or _BEFORE_AMPERE.search(word):
            return str(word)
    capability = _CAPABILITY.search(text)
    return f"{_CAPABILITY_WORDS} {int(capability[1])}" if capability else None


def same_device(names: Iterable[str]) -> bool:
    """Return whether all ``names`` can denote one kind of device, by their words without the vendor's.

    A short name (``V100``) matches each name that has its words, and a compute capability each of its generation.
    """
    return all(_alike(*pair) for pair in combinations(dict.fromkeys(names), 2))


def _alike(one: str, other: str) -> bool:
    if one.startswith(_CAPABILITY_WORDS) != other.startswith(_CAPABILITY_WORDS):
        return None in (generations := {has_tf32(one), has_tf32(other)}) or len(generations) == 1
    words, others = (set(re.split(r"[\s-]+", name.lower())) - _MAKERS for name in (one, other))
    return words <= others or others <= words


def has_tf32(hardware: str | None) -> bool | None:
    """Return whether the device can compute in TF32 (NVIDIA Ampere and later); ``None`` if unknown."""
    if hardware is None:
        return None
    if _AMPERE_OR_LATER.search(hardware):
        return True
    return False if _BEFORE_AMPERE.search(hardware) else None
