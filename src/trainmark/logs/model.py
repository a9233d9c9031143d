"""Result of reading a log: facts about the run and its device, columns of records, the tool's own figures, problems.

A column has float64 values with bounded memory: past a limit they are in a temporary file.
"""

import math
import os
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import combinations
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.precision import Precision

if TYPE_CHECKING:
    from trainmark.schema.measurement import Parameters


Floats = NDArray[np.float64]

BUFFERED_VALUES = 1 << 17
"""Values of one column that are buffered in memory (1 MiB) before they are written to the file."""
BLOCK_VALUES = 1 << 15
_BYTES = 8
_FIGURES = (
    "rate",
    "step_time_s",
    "step_time_ms",
    "step_time_us",
    "steps_per_s",
    "average_rate",
    "average_time_s",
    "average_time_ms",
    "average_steps_per_s",
)
_COMPOSED = ("rate_thousands", "rate_millions", "step_time_m", "extra_time_s", "seconds", "bar_s")
_LAST_BYTES = 1 << 13
_MOST_VALUES = 2
"""Most different values of a steady run; of more the rounding averages out."""
_NUMBER = re.compile(rb"\d+(?:\.(\d*))?")
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


class Column:
    """Values in the order of the log; appended in bulk, read in blocks. Not thread-safe."""

    def __init__(self) -> None:
        self._buffered: list[Floats] = []
        self._buffered_count = 0
        self._file: IO[bytes] | None = None
        self._written_count = 0

    @classmethod
    def of(cls, values: Floats | list[float]) -> "Column":
        """Return a column of ``values``."""
        column = cls()
        column.append(np.asarray(values, dtype=np.float64))
        return column

    def __len__(self) -> int:
        """Return the number of values."""
        return self._written_count + self._buffered_count

    def append(self, values: Floats) -> None:
        """Add ``values`` at the end."""
        if not len(values):
            return
        self._buffered.append(values)
        self._buffered_count += len(values)
        if self._buffered_count > BUFFERED_VALUES:
            if self._file is None:
                import tempfile

                self._file = tempfile.TemporaryFile(prefix="trainmark-column-")  # noqa: SIM115 (lives with us)
                weakref.finalize(self, self._file.close)
            for block in self._buffered:
                self._file.write(np.ascontiguousarray(block, dtype=np.float64).data)
            self._file.flush()
            self._written_count += self._buffered_count
            self._buffered, self._buffered_count = [], 0

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Floats]:
        """Yield the values ``start`` … ``stop`` (as in a slice, not negative) in blocks, in order."""
        if self._is_short():
            if len(block := self._short(start, stop)):
                yield block
            return
        stop = len(self) if stop is None else min(stop, len(self))
        position = max(start, 0)
        while position < min(stop, self._written_count) and self._file is not None:
            block = np.empty(min(BLOCK_VALUES, stop - position, self._written_count - position))
            self._read(position, block)
            yield block
            position += len(block)
        offset = self._written_count
        for held in self._buffered:
            first, last = max(position - offset, 0), min(stop - offset, len(held))
            if first < last:
                yield held[first:last]
            offset += len(held)

    def array(self, start: int = 0, stop: int | None = None) -> Floats:
        """Return the values ``start`` … ``stop`` as one array, in memory; it may be read only."""
        if self._is_short():
            return self._short(start, stop)
        start, stop = max(start, 0), len(self) if stop is None else min(stop, len(self))
        found = np.empty(max(stop - start, 0))
        done = max(min(stop, self._written_count) - start, 0)
        self._read(start, found[:done])
        for block in self.blocks(start + done, stop):
            found[done : done + len(block)] = block
            done += len(block)
        return found

    def _is_short(self) -> bool:
        """Return whether all values are in one array, as those of a small log are."""
        return self._file is None and len(self._buffered) == 1

    def _short(self, start: int, stop: int | None) -> Floats:
        view = self._buffered[0][max(start, 0) : stop]
        view.flags.writeable = False
        return view

    def _read(self, start: int, into: Floats) -> None:
        """Fill ``into`` with the values from ``start`` on, all of which are in the file; raise ``OSError``."""
        rest, at = into.data.cast("B"), start * _BYTES
        while len(rest) and self._file is not None:
            size = os.preadv(self._file.fileno(), [rest], at)
            if not size:
                raise OSError(
                    "the temporary file of a log's records was truncated: is the disk of TMPDIR full?"
                )
            rest, at = rest[size:], at + size

    def __iter__(self) -> Iterator[float]:
        """Yield the values one by one."""
        for block in self.blocks():
            yield from block.tolist()


def median(values: NDArray[Any] | Sequence[float]) -> float:
    """Return what ``numpy.median`` does; NumPy's own loads its masked arrays, which takes longer than a small log."""
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=None)
    size = len(ordered)
    if not size or np.isnan(ordered[-1]):
        return float("nan")
    return float(ordered[(size - 1) // 2 : size // 2 + 1].mean())


def differences(values: Floats) -> Floats:
    """Return the difference of each value to the one before; ``numpy.diff`` takes ten times as long for a few."""
    return values[1:] - values[:-1]


def in_step(columns: Sequence[Column]) -> Iterator[tuple[Floats, ...]]:
    """Yield columns of one length in aligned blocks."""
    for start in range(0, len(columns[0]) if columns else 0, BLOCK_VALUES):
        yield tuple(column.array(start, start + BLOCK_VALUES) for column in columns)


def rounding_of(pattern: re.Pattern[bytes], tail: bytes) -> float:
    """Return by how much rounding may change the figures of ``pattern`` in the last lines, as a share of them.

    0 if they have many values, or consist of several numbers. Of several figures in a line the finest counts.
    """
    names = [name for name in _FIGURES if name in pattern.groupindex]
    if not names:
        return 0.0
    matches = [match.groupdict() for match in pattern.finditer(tail[-_LAST_BYTES:])]
    if any(match.get(name) is not None for match in matches for name in _COMPOSED):
        return 0.0
    return min((share for name in names for share in _shares(name, matches)), default=0.0)


def _shares(name: str, matches: list[dict[str, bytes | None]]) -> Iterator[float]:
    """Yield the rounding of one figure, as a share of its smallest value."""
    words = {word for match in matches if (word := match[name])}
    numbers = [(float(word), number) for word in words if (number := _NUMBER.fullmatch(word))]
    if not numbers or len(numbers) < len(words) or min(value for value, _ in numbers) <= 0:
        return
    if len(words) > _MOST_VALUES:
        yield 0.0
        return
    places = max(len(number[1] or b"") for _, number in numbers)
    yield 0.5 * 10.0**-places / min(value for value, _ in numbers)


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


FIELDS = tuple(field.name for field in fields(Record))
"""The fields of a record, each of which is a column of ``Records``."""


@dataclass(frozen=True, slots=True)
class Records:
    """The training records of one rank as columns of equal length; ``None`` for a field that no line has.

    Columns take 8 bytes per value and move to a temporary file when they grow (``trainmark.logs.model``).
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
        columns = [getattr(self, name) for name in FIELDS]
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
        if records.step is None or not records.count or usual < 2 or averaged or self.uses_clock:
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
