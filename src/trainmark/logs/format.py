"""What a log format is: patterns of its lines, and how its header and its end are read."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from trainmark.logs import dllogger
from trainmark.logs.columns import Floats
from trainmark.logs.fields import Extract
from trainmark.logs.model import Ending, Facts, Meaning, Problem, RunWords, Scope
from trainmark.schema.case import Precision


@dataclass(frozen=True, slots=True)
class LogContext:
    """What a format may look at besides its records: the log's first and last part, and where it stopped.

    ``head`` holds up to 512 KiB and ``tail`` up to 128 KiB of clean text (which overlap in a short log), ``text``
    both. ``first_step``, ``last_epoch`` and ``last_step`` are counters of the first and last record, ``step_interval``
    the steps a record. ``ranks`` is the number of ranks that a launcher's tags name, 0 without tags. ``notes`` are what
    the format's ``notes`` found in all of the log (of each rank), a line each, up to 1 MiB, and ``records`` the number
    of records.
    """

    head: bytes
    tail: bytes
    text: bytes
    first_step: int | None = None
    last_epoch: int | None = None
    last_step: int | None = None
    step_interval: int = 1
    ranks: int = 0
    notes: bytes = b""
    records: int = 0


@dataclass(frozen=True, slots=True)
class Published:
    """One way in which figures of a program are published: the ``rule``, by its name, and by whom."""

    rule: str
    by: str


@dataclass(frozen=True, slots=True)
class Format:
    """One log format; ``title`` is the program's short name for readers.

    ``records`` match a training record each; the one that matches most is used. Their groups are named ``epoch``,
    ``step``, ``rate`` (units/s), ``step_time_s``, ``samples`` (of a record, or of a step where ``samples_of_step``),
    ``seconds`` (of a record), ``stamp`` (date and time) or ``clock_s`` (elapsed), and of what the program averages
    since the epoch's start ``average_rate`` and ``average_time_s`` (``docs/add-a-log-format.md`` has the units in
    which each may be printed). A pattern demands a character after each number: otherwise a log cut inside a number
    would go unseen. The pattern at the place ``overall`` is read wherever
    it occurs: it times as a whole what others time in parts. ``scope_said`` is there where only the log tells whose
    rate a line prints. ``mark`` recognises a log that has no record yet. ``extract`` replaces ``records`` where a line
    needs more than a pattern; ``assemble`` makes the records of what it returned over the whole log, where a line
    alone says too little (it is given everything at once: few rows); ``reworked`` makes other records of many, a block
    at a time. ``figures`` are the tool's own results, looked
    for in the tail. ``header`` is what every whole log begins with. With ``accumulates`` a printed step is one of the
    optimizer, of several micro-batches. ``pattern_units`` are the units of each of ``records`` where they differ. With
    ``counts_samples`` the counter of a record counts samples of all devices, not steps. A running average printed at
    step ``n`` is of ``n - averages_from`` steps. With ``of_last_steps`` a record may be of the last steps of its
    interval only. ``epoch_seconds`` finds what an epoch's training took (groups ``epoch``, ``s``, and ``d``, ``h``,
    ``m`` before it): the records are held against it. ``doubts`` reads what the program itself holds against its
    result; ``notes`` matches what it needs of the whole log, wherever it stands (rare lines, or reading becomes slow).
    ``fp16`` is what the word means in a log's name, where the program has one kind of it only. ``run_words`` is there
    for a program that says its own measured window. ``published`` are the rules by which figures of this program are
    published, in the order in which an audit tries them.
    """

    name: str
    title: str
    framework: str | None
    unit: str
    scope: Scope
    records: tuple[re.Pattern[bytes], ...]
    mark: re.Pattern[bytes]
    facts: Callable[[LogContext], Facts]
    ending: Callable[[LogContext], Ending]
    meaning: Meaning = Meaning.INTERVAL
    overall: int | None = None
    scope_said: Callable[[LogContext], Scope] | None = None
    figures: Mapping[str, re.Pattern[bytes]] = field(default_factory=dict)
    parameters: Callable[[LogContext], dict[str, str]] | None = None
    extract: Callable[[bytes], Extract] | None = None
    assemble: Callable[[dict[str, Floats]], dict[str, Floats]] | None = None
    reworked: Callable[[Iterator[dict[str, Floats]]], Iterator[dict[str, Floats]]] | None = None
    doubts: Callable[[LogContext], tuple[Problem, ...]] | None = None
    notes: re.Pattern[bytes] | None = None
    run_words: Callable[[LogContext], RunWords] | None = None
    samples_of_step: bool = False
    accumulates: bool = False
    averages_from: int = 0
    counts_samples: bool = False
    pattern_units: tuple[str, ...] = ()
    of_last_steps: bool = False
    epoch_seconds: re.Pattern[bytes] | None = None
    header: re.Pattern[bytes] | None = None
    fp16: Precision | None = None
    warmup_steps: int = 20
    without_records: str = "the log has no training record"
    published: tuple[Published, ...] = ()


def unknowable(_: LogContext) -> Ending:
    """Say that the format prints nothing by which its end can be known."""
    return Ending.UNKNOWABLE


def ends_with(pattern: re.Pattern[bytes]) -> Callable[[LogContext], Ending]:
    """Return a reader that has seen the end when ``pattern`` is in the tail."""

    def ending(context: LogContext) -> Ending:
        return Ending.SEEN if pattern.search(context.tail) else Ending.MISSING

    return ending


def dll_parameters(context: LogContext) -> dict[str, str]:
    """Return the ``PARAMETER`` lines of NVIDIA's DLLogger as words."""
    return dllogger.dll_parameters(context.text)


def namespace(context: LogContext) -> dict[str, str]:
    """Return the arguments of a printed ``argparse`` ``Namespace(key=value, …)`` as words; never evaluated."""
    found: dict[str, str] = {}
    for body in re.findall(rb"Namespace\(([^\n]*)\)", context.text):
        for key, value in re.findall(rb"(\w+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^,()\s]+)", body):
            found.setdefault(_word(key), _word(value).strip("'\""))
    return found


def config_lines(context: LogContext, pattern: re.Pattern[bytes]) -> dict[str, str]:
    """Return the pairs (key, value) that ``pattern`` finds; the first of equal keys stays."""
    found: dict[str, str] = {}
    for key, value in pattern.findall(context.text):
        found.setdefault(_word(key), _word(value).strip("'\","))
    return found


_THOUSANDS = re.compile(rb"\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_LONGEST_COUNT = 18
"""Digits of a count: more are a damaged line."""


def integer(words: Mapping[str, str], key: str) -> int | None:
    """Return the positive integer under ``key``, else ``None``."""
    return counted(words.get(key, ""))


def all_devices(nodes: int | None, per_node: int | None) -> int | None:
    """Return the devices of all nodes, of one where nothing is said of them; ``None`` where those of a node are not."""
    return per_node * (nodes or 1) if per_node else None


def counted(word: str) -> int | None:
    """Return a positive integer, its thousands with commas or not; None for what no log counts, however long it is."""
    digits = word.replace(",", "")
    return (int(digits) or None) if digits.isdecimal() and len(digits) <= _LONGEST_COUNT else None


def search_integer(pattern: bytes, text: bytes) -> int | None:
    """Return the first group of ``pattern`` that matched as a positive integer, else ``None``."""
    match = re.search(pattern, text)
    word = next((group for group in match.groups() if group), None) if match else None
    return counted(word.decode("ascii", "replace")) if word else None


def positive(word: bytes) -> float | None:
    """Return a printed number, its thousands with commas or not; ``None`` for what is none, not positive or endless.

    A comma elsewhere is a point of another locale (``2560,02``), and what it says is not guessed.
    """
    if b"," in word and not _THOUSANDS.fullmatch(word):
        return None
    try:
        value = float(word.replace(b",", b""))
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def search_word(pattern: bytes, text: bytes) -> str | None:
    """Return the first group of ``pattern`` as a word, else ``None``."""
    match = re.search(pattern, text)
    return _word(match[1]) if match else None


def listed(word: str | None) -> int | None:
    """Return how many items a printed list such as ``0,1,2,3`` or ``[0, 1]`` has; ``None`` where it was cut."""
    if word is None or word.endswith(","):
        return None
    items = [item for item in word.strip("[]()'\" ").split(",") if item.strip()]
    return len(items) or None


def _word(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip()
