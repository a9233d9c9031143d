"""Definition of a log format (its lines, header and end), and the formats that a log is read by.

A log is read by a few given formats, or by all known ones, of which only candidates are loaded.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.events import dll_parameters as parameters_of_dllogger
from trainmark.logs.lines.fields import Extract
from trainmark.logs.lines.literals import required, required_all
from trainmark.logs.model import Column, EndState, Facts, Floats, Meaning, OwnRun, Problem, Scope, Witness
from trainmark.schema.precision import Precision

_THOUSANDS = re.compile(rb"\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_LONGEST_COUNT = 18
"""Most digits of a count: a longer one comes from a damaged line."""
_ALWAYS = 1 << 16
"""The number of a pair that is in every text, for words without a pair."""
_FEW_PAIRS = 4
_MANY_WORDS = 64
"""From this many words on it is faster to look up their pairs of characters first."""


@dataclass(frozen=True, slots=True)
class LogContext:
    """The parts of a log that a format's functions may read besides its records.

    ``head`` holds up to 512 KiB and ``tail`` up to 128 KiB of clean text (they overlap in a short log), ``text``
    both. ``first_step``, ``last_epoch`` and ``last_step`` are counters of the first and last record, ``step_interval``
    the steps per record. ``ranks`` is the number of ranks named by a launcher's tags, 0 without tags. ``notes`` holds
    the matches of the format's ``notes`` pattern in the whole log (all ranks), one per line, up to 1 MiB; ``records``
    is the number of records.
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


class Published(NamedTuple):
    """A rule by which figures of a program are published: the name of the ``rule`` and the publisher."""

    rule: str
    by: str


class Assembled(NamedTuple):
    """Records computed from all rows of a log, and the other ways to the throughput that the same rows allow."""

    records: Mapping[str, Column]
    witnesses: tuple[Witness, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """One log format; ``title`` is the program's short name for readers.

    Each pattern in ``records`` matches one training record; the pattern with the most matches is used. Its groups are
    named ``epoch``, ``step``, ``rate`` (units/s), ``step_time_s``, ``samples`` (of a record, or of a step with
    ``samples_of_step``), ``seconds`` (of a record), ``stamp`` (date and time) or ``clock_s`` (elapsed), and for running
    averages since the epoch's start ``average_rate`` and ``average_time_s`` (``docs/how-to/describe-a-log.md`` lists
    the units). A pattern requires a character after each number: otherwise a log truncated inside a number would go
    unnoticed. The pattern with index ``overall`` is preferred wherever it occurs: it times as a whole what the others
    time in parts. ``find_scope`` returns the scope of the rates where it differs between logs. ``mark`` recognises a
    log that has no record yet. ``extract`` replaces ``records`` if a line needs more than a pattern; ``assemble``
    computes the records from all rows that ``extract`` returned, and other ways to the throughput from the same rows;
    ``transform`` maps blocks of columns to blocks of columns. ``figures`` match the tool's own results in the tail;
    ``computed_figures`` returns others, and None for one that is not of this run. ``header`` matches the start of every
    complete log. Only the first record after a match of ``heading`` counts, as further ones are of an evaluation;
    before the first heading all do. A log without a match of ``required`` in its head or tail is of another program,
    which prints the same lines. With ``accumulates`` a printed step is an optimizer step of several micro-batches.
    ``pattern_units`` and ``pattern_meanings`` are the unit and the meaning of each of ``records`` if they differ. With
    ``counts_samples`` the counter of a record counts samples of all devices, not steps. A running average printed at
    step ``n`` covers ``n - averages_from`` steps, or ``n`` if it ``may_count_from_one`` and the counters show it. With
    ``of_last_steps`` a record may cover only the last steps of its interval.
    ``epoch_seconds`` matches the training time of an epoch (groups ``epoch``, ``s``, and optionally ``d``,
    ``h``, ``m``), which the records are checked against. ``doubts`` returns problems of the program's own result;
    ``notes`` matches the lines of the whole log that it needs (rare lines, or reading becomes slow). ``fp16`` is the
    precision that "fp16" in a log's name means for this program. A format that ``accompanies`` is printed by a harness
    among the lines of another program, and its records win over that program's. ``own_run`` reads the measured window
    of a program that reports it. ``published`` lists the rules by which figures of this program are published, in the
    order in which an audit tries them. ``built_on`` is the format of a trainer on which this program is built, and
    whose results are in its logs. ``by_arrival`` reads the steps of a program that prints no times but a result at its
    end: where the arrival of the lines is known, it is their clock.
    """

    name: str
    title: str
    framework: str | None
    unit: str
    scope: Scope
    records: tuple[re.Pattern[bytes], ...]
    mark: re.Pattern[bytes]
    facts: Callable[[LogContext], Facts]
    end_state: Callable[[LogContext], EndState]
    meaning: Meaning = Meaning.INTERVAL
    overall: int | None = None
    find_scope: Callable[[LogContext], Scope] | None = None
    figures: Mapping[str, re.Pattern[bytes]] = field(default_factory=dict)
    computed_figures: Callable[[LogContext], dict[str, float | None]] | None = None
    parameters: Callable[[LogContext], dict[str, str]] | None = None
    extract: Callable[[bytes], Extract] | None = None
    assemble: Callable[[Mapping[str, Column]], Assembled] | None = None
    transform: Callable[[Iterator[dict[str, Floats]]], Iterator[dict[str, Floats]]] | None = None
    doubts: Callable[[LogContext], tuple[Problem, ...]] | None = None
    notes: re.Pattern[bytes] | None = None
    own_run: Callable[[LogContext], OwnRun] | None = None
    samples_of_step: bool = False
    accumulates: bool = False
    averages_from: int = 0
    may_count_from_one: bool = False
    counts_samples: bool = False
    pattern_units: tuple[str, ...] = ()
    pattern_meanings: tuple[Meaning, ...] = ()
    of_last_steps: bool = False
    epoch_seconds: re.Pattern[bytes] | None = None
    header: re.Pattern[bytes] | None = None
    heading: re.Pattern[bytes] | None = None
    required: re.Pattern[bytes] | None = None
    fp16: Precision | None = None
    warmup_steps: int = 20
    without_records: str = "the log has no training record"
    accompanies: bool = False
    published: tuple[Published, ...] = ()
    built_on: str | None = None
    by_arrival: "Format | None" = None


def unknown_end(_: LogContext) -> EndState:
    """Return that the end is unknown, for formats that print nothing at the end of a run."""
    return EndState.UNKNOWN


def ends_with(pattern: re.Pattern[bytes]) -> Callable[[LogContext], EndState]:
    """Return a function that finds the end of the run by ``pattern`` in the tail."""

    def end_state(context: LogContext) -> EndState:
        return EndState.FOUND if pattern.search(context.tail) else EndState.MISSING

    return end_state


def dll_parameters(context: LogContext) -> dict[str, str]:
    """Return the settings on the ``PARAMETER`` lines of NVIDIA's DLLogger, as strings."""
    return parameters_of_dllogger(context.text)


def namespace_arguments(context: LogContext) -> dict[str, str]:
    """Return the arguments of a printed ``argparse`` ``Namespace(key=value, …)`` as strings; never evaluated.

    MAE prints each in a line of its own, which ends with a comma.
    """
    found: dict[str, str] = {}
    for body in re.findall(rb"Namespace\(((?:[^\n]*,\r?\n)*[^\n]*)\)", context.text):
        for key, value in re.findall(rb"(\w+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^,()\s]+)", body):
            found.setdefault(_word(key), _word(value).strip("'\""))
    return found


def config_lines(context: LogContext, pattern: re.Pattern[bytes]) -> dict[str, str]:
    """Return the pairs (key, value) that ``pattern`` finds; the first value of a key wins."""
    found: dict[str, str] = {}
    for key, value in pattern.findall(context.text):
        found.setdefault(_word(key), _word(value).strip("'\","))
    return found


def parse_setting(words: Mapping[str, str], key: str) -> int | None:
    """Return the positive integer under ``key``, else ``None``."""
    return parse_count(words.get(key, ""))


def parse_count(word: str) -> int | None:
    """Return ``word`` as a positive integer (commas between thousands allowed); ``None`` if it is none or too long."""
    digits = word.replace(",", "")
    return (int(digits) or None) if digits.isdecimal() and len(digits) <= _LONGEST_COUNT else None


def search_integer(pattern: bytes, text: bytes) -> int | None:
    """Return the first matched group of ``pattern`` as a positive integer, else ``None``."""
    match = re.search(pattern, text)
    word = next((group for group in match.groups() if group), None) if match else None
    return parse_count(word.decode("ascii", "replace")) if word else None


def parse_positive(word: bytes) -> float | None:
    """Return a printed number (commas between thousands allowed); ``None`` unless it is positive and finite.

    A comma elsewhere is a decimal point of another locale (``2560,02``), which is not guessed.
    """
    if b"," in word and not _THOUSANDS.fullmatch(word):
        return None
    try:
        value = float(word.replace(b",", b""))
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def search_word(pattern: bytes, text: bytes) -> str | None:
    """Return the first group of ``pattern`` as a string, else ``None``."""
    match = re.search(pattern, text)
    return _word(match[1]) if match else None


def count_items(word: str | None) -> int | None:
    """Return the number of items in a printed list such as ``0,1,2,3`` or ``[0, 1]``; ``None`` if it was truncated."""
    if word is None or word.endswith(","):
        return None
    items = [item for item in word.strip("[]()'\" ").split(",") if item.strip()]
    return len(items) or None


def _word(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip()


class KnownFormats(Protocol):
    """Formats to choose from; their order decides between formats that match equally well."""

    def candidates(self, text: bytes) -> Sequence[Format]:
        """Return the formats of which a pattern may match in ``text``: all that match, and maybe others."""

    def harnesses(self, text: bytes) -> Sequence[Format]:
        """Return the candidates that accompany another program."""


class GivenFormats(NamedTuple):
    """A few loaded formats; each is a candidate for every text."""

    formats: tuple[Format, ...]

    def candidates(self, _text: bytes) -> Sequence[Format]:
        """Return all formats."""
        return self.formats

    def harnesses(self, _text: bytes) -> Sequence[Format]:
        """Return the formats that accompany another program."""
        return [known for known in self.formats if known.accompanies]


class ProgramFormats(NamedTuple):
    """The formats of programs without those that accompany them."""

    known: KnownFormats

    def candidates(self, text: bytes) -> Sequence[Format]:
        """Return the candidates that are printed by programs themselves."""
        return [known for known in self.known.candidates(text) if not known.accompanies]

    def harnesses(self, _text: bytes) -> Sequence[Format]:
        """Return none."""
        return ()


class PatternWords(NamedTuple):
    """Words in each match of one pattern: at least one of ``any_of`` and every one of ``all_of``."""

    any_of: tuple[bytes, ...]
    all_of: tuple[bytes, ...]


class FormatWords(NamedTuple):
    """A format that is not loaded: its name, and the words of each pattern by which it is recognised."""

    name: str
    accompanies: bool
    patterns: tuple[PatternWords, ...]


def words_of(known: Format) -> FormatWords:
    """Return the words of a format's records, figures and mark."""
    patterns = (*known.records, *known.figures.values(), known.mark)
    found = {PatternWords(required(each), required_all(each)): None for each in patterns}
    return FormatWords(known.name, known.accompanies, tuple(found))


class IndexedFormats:
    """Formats known by their words, of which each is loaded by its name when a log may have it."""

    def __init__(self, index: Sequence[FormatWords], load: Callable[[str], Format]) -> None:
        self._all = _Index(index)
        self._harnesses = _Index([words for words in index if words.accompanies])
        self._load = load
        self._last: tuple[bytes, Sequence[Format]] | None = None

    def candidates(self, text: bytes) -> Sequence[Format]:
        """Return the formats of which a pattern may match in ``text``."""
        # The same text is asked for twice if the log is small: for its format, and for others in it.
        if self._last is None or text != self._last[0]:
            self._last = text, [self._load(name) for name in self._all.names_in(text)]
        return self._last[1]

    def harnesses(self, text: bytes) -> Sequence[Format]:
        """Return the candidates that accompany another program."""
        if self._last is not None and text == self._last[0]:
            return [known for known in self._last[1] if known.accompanies]
        return [self._load(name) for name in self._harnesses.names_in(text)]


class _Index:
    """The patterns of formats by the words of which a match contains one, so that each word is searched for once.

    Searching for five hundred words takes longer than reading a small log: a word is searched for only if its rarest
    pairs of characters are in the text, which is one look-up in an array for all words.
    """

    def __init__(self, index: Sequence[FormatWords]) -> None:
        self._names = [words.name for words in index]
        followers: dict[bytes, list[tuple[int, tuple[bytes, ...]]]] = {}
        for number, words in enumerate(index):
            for pattern in words.patterns:
                for word in pattern.any_of:
                    followers.setdefault(word, []).append((number, pattern.all_of))
        self._followers = list(followers.items())
        pairs = [(_pairs(word).tolist() if len(word) > 1 else [_ALWAYS]) for word in followers]
        uses = Counter(pair for word in pairs for pair in set(word))
        # The pairs that fewest words have tell most; a short word has one of them several times.
        rare = [sorted(word, key=uses.__getitem__) * _FEW_PAIRS for word in pairs]
        self._pairs = (
            np.array([word[:_FEW_PAIRS] for word in rare], np.int64).reshape(-1, _FEW_PAIRS).T.copy()
        )
        self._present = np.zeros(_ALWAYS + 1, np.bool_)
        self._present[_ALWAYS] = True

    def names_in(self, text: bytes) -> list[str]:
        """Return the names of the formats that may be in ``text``, in the order of the index."""
        found: set[int] = set()
        for number in self._possible_words(text):
            word, followers = self._followers[number]
            if word in text:
                found.update(number for number, all_of in followers if all(part in text for part in all_of))
        return [self._names[number] for number in sorted(found)]

    def _possible_words(self, text: bytes) -> list[int]:
        """Return the numbers of the words whose rarest pairs of characters are in ``text``; of few words all."""
        if len(self._followers) < _MANY_WORDS:
            return list(range(len(self._followers)))
        codes = _pairs(text)
        self._present[codes] = True
        possible = np.logical_and.reduce(self._present[self._pairs])
        self._present[codes] = False
        numbers: list[int] = possible.nonzero()[0].tolist()
        return numbers


def _pairs(text: bytes) -> NDArray[np.uint16]:
    """Return each two neighbouring characters of ``text`` as one number; none for a shorter text."""
    size = len(text)
    if size < 2:
        return np.zeros(0, np.uint16)
    return np.concatenate(
        (np.frombuffer(text, "<u2", size // 2), np.frombuffer(text, "<u2", (size - 1) // 2, 1))
    )
