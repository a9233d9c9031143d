"""Log formats of all known programs, and log reading with them, or with the one that the reader gives.

A process that reads logs needs a few of sixty formats. An index in the user's cache has the words of their patterns
and descriptions parsed from YAML: it names the candidates, so that the other modules are not imported, the other YAML
files are not parsed, and their expressions are not compiled. It is valid for the exact content of the files that
define formats and read them; where the cache cannot be used, the index is computed again.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import source_hash
from io import BufferedReader
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from trainmark import logs
from trainmark.documents import NamedText, parse_yaml, split_documents
from trainmark.errors import InputError, nearest
from trainmark.files import write_atomically
from trainmark.logs import Facts, ParsedLog, Problem, Status
from trainmark.logs.description import (
    FormatDescription,
    build_format,
    described_in,
    parse_description,
    read_description,
)
from trainmark.logs.format import Format, FormatWords, GivenFormats, IndexedFormats, PatternWords, words_of
from trainmark.logs.lines.transport import PIECE_BYTES, Recording
from trainmark.programs import log_formats
from trainmark.schema.names import LOG, OUTCOME
from trainmark.version import __version__

if TYPE_CHECKING:
    from trainmark.logs.synthetic import SampleRun

_BOUND_S = 60
"""CPU seconds for one log: the slowest known format reads 50 MB/s."""


class IndexEntry(NamedTuple):
    """One format: its words, and its document if it is described in YAML that JSON can hold."""

    words: FormatWords
    document: Mapping[str, Any] | None = None


def load_index(
    folders: Sequence[Path], compute: Callable[[], Iterable[IndexEntry]]
) -> tuple[IndexEntry, ...]:
    """Return the saved index of the formats in ``folders``; compute and save it if their files have changed."""
    digest = _digest(folders)
    try:
        path = _default_cache(os.environ) / f"formats-{_digest_of(map(bytes, folders))[:16]}.json"
    except RuntimeError:  # there is no home folder
        return tuple(compute())
    # A damaged file is computed again, as a missing one is.
    with suppress(OSError, ValueError, LookupError, TypeError):
        saved = json.loads(path.read_bytes())
        if saved["digest"] == digest:
            return tuple(map(_decoded, saved["formats"]))
    index = tuple(compute())
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"digest": digest, "formats": [*map(_encoded, index)]}))
    return index


def _default_cache(environ: Mapping[str, str]) -> Path:
    """Return the folder for what can be computed again: ``$XDG_CACHE_HOME/trainmark``, else ``~/.cache/trainmark``.

    Raises ``RuntimeError`` if there is no home folder.
    """
    cache = environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "trainmark"


def as_json(document: Any) -> Mapping[str, Any] | None:
    """Return ``document`` as JSON holds it; ``None`` if that changes it (a key that is no text, a date)."""
    try:
        copy = json.loads(json.dumps(document))
    except (TypeError, ValueError):
        return None
    return copy if copy == document else None


def _digest(folders: Sequence[Path]) -> str:
    """Return the digest of all that decides the index: every file that defines formats, this one, and the versions."""
    versions = f"{__version__} {sys.implementation.cache_tag}".encode()
    this = Path(__file__).read_bytes()
    return _digest_of((versions, this, *_contents([*logs.__path__, *map(str, folders)])))


def _contents(folders: Sequence[str]) -> Iterator[bytes]:
    """Yield name and content of each Python and YAML file in ``folders``; ``scandir`` takes half of a walk's time."""
    inner = []
    for folder in folders:
        with os.scandir(folder) as found:
            for entry in sorted(found, key=lambda entry: entry.name):
                if entry.name.endswith((".py", ".yaml")):
                    yield entry.name.encode()
                    yield Path(entry.path).read_bytes()
                elif not entry.name.startswith("_") and entry.is_dir():
                    inner.append(entry.path)
    if inner:
        yield from _contents(inner)


def _digest_of(parts: Iterable[bytes]) -> str:
    # The hash of Python's own caches: loading hashlib takes longer than reading a small log.
    return source_hash(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).hex()


def _encoded(entry: IndexEntry) -> dict[str, Any]:
    patterns = [
        [[word.decode("latin-1") for word in words] for words in (pattern.any_of, pattern.all_of)]
        for pattern in entry.words.patterns
    ]
    return {
        "name": entry.words.name,
        "accompanies": entry.words.accompanies,
        "patterns": patterns,
        "document": entry.document,
    }


def _decoded(saved: Mapping[str, Any]) -> IndexEntry:
    patterns = (
        PatternWords(*(tuple(word.encode("latin-1") for word in words) for words in pattern))
        for pattern in saved["patterns"]
    )
    words = FormatWords(saved["name"], saved["accompanies"], tuple(patterns))
    return IndexEntry(words, saved["document"])


@cache
def formats() -> tuple[Format, ...]:
    """Return every log format, sorted by name; a log's content decides its format, order only breaks ties."""
    return tuple(map(_format_of, _files()))


@cache
def known_formats() -> IndexedFormats:
    """Return every log format, in the same order, each loaded when a log may have it."""
    return IndexedFormats([entry.words for entry in _indexed().values()], _format_of)


def descriptions() -> tuple[FormatDescription, ...]:
    """Return the descriptions of all formats that are data, sorted by name."""
    return tuple(described_in(file) for file in _files().values() if isinstance(file, NamedText))


def find_format(name: str) -> Format:
    """Return the format called ``name``; raise ``InputError`` with the nearest name if there is none."""
    if name in _indexed():
        return _format_of(name)
    if Path(name).is_file():
        raise InputError(f"{name}: the name of a file that describes a format ends in .yaml")
    raise InputError(f"no log format '{name}'{nearest(name, _indexed())} (trainmark parse --list-formats)")


def format_of(name: str | None) -> Format | None:
    """Return the format by which a log was read; None for a guessed one, and for a log of no format.

    No other format is loaded.
    """
    return _format_of(name) if name is not None and name in _indexed() else None


@cache
def samples() -> "Mapping[str, Callable[[SampleRun], Iterator[str]]]":
    """Return the writers of synthetic logs by format name."""
    written = {name: _module(name).sample for name, file in _files().items() if isinstance(file, Path)}
    return written | {each.name: _described_sample(each) for each in descriptions() if each.sample}


def synthetic_log(format_name: str, run: "SampleRun") -> str:
    """Return a complete synthetic log in a format, for tests, benchmarks and trying out scripts.

    Nothing in it is a measurement. Raises ``KeyError`` for a format without a writer.
    """
    return "".join(line + "\n" for line in samples()[format_name](run))


@cache
def _format_of(name: str) -> Format:
    """Return a format; its description is taken from the index, which holds it parsed."""
    document = _indexed()[name].document
    return (
        _read_format(name) if document is None else described_format(document, f"the log format {name}", name)
    )


def _read_format(name: str) -> Format:
    if isinstance(file := _files()[name], NamedText):
        return build_format(described_in(file))
    found: Format = _module(name).FORMAT
    return found


@cache
def _indexed() -> Mapping[str, IndexEntry]:
    """Return the index of all formats by name, sorted."""
    return {
        entry.words.name: entry for entry in load_index([*map(Path, log_formats.__path__)], _index_entries)
    }


def _index_entries() -> Iterator[IndexEntry]:
    for name, file in _files().items():
        document = as_json(parse_yaml(file.text)) if isinstance(file, NamedText) else None
        yield IndexEntry(words_of(_read_format(name)), document)


def _described_sample(text: FormatDescription) -> "Callable[[SampleRun], Iterator[str]]":
    from trainmark.logs.description.sample import make_sample

    return make_sample(text.sample, f"{text.where}: sample", text.averages_from)


def _module(name: str) -> ModuleType:
    return import_module(f"{log_formats.__name__}.{name.replace('-', '_')}")


@cache
def _files() -> Mapping[str, Path | NamedText]:
    """Return the module, package or document of each format, sorted by name; of two with one name the first found."""
    found: dict[str, Path | NamedText] = {}
    for room in log_formats.__path__:
        for file in Path(room).iterdir():
            if file.stem.startswith("_"):
                continue
            if file.suffix == ".py" or (file / "__init__.py").is_file():
                found.setdefault(file.stem.replace("_", "-"), file)
            elif file.suffix == ".yaml":
                for document in split_documents(file):
                    found.setdefault(document.name, document)
    return {name: found[name] for name in sorted(found)}


def read_log(path: str | Path, given: Facts | None = None, *, guess: bool = False) -> ParsedLog:
    """Read the log at ``path`` (text or gzip; any known format), with facts ``given`` by its reader.

    With ``guess`` a log of an unknown program, or of a version whose records have another form, is read by a proposed
    format; its status is then ``guessed``. Never raises for the content of a file: a file that cannot be opened, is not
    text, or has no known format is returned with that status. If the log of a failed trainmark run does not show the
    failure, the result has the outcome recorded in the run's folder.
    """
    parsed = logs.read_log(path, known_formats(), given)
    silent = parsed.status in (Status.UNKNOWN, Status.EMPTY) and Path(path).name == LOG
    if silent and (recorded := _as_recorded(parsed, Path(path).parent / OUTCOME)) is not parsed:
        return recorded
    return _guessed(parsed, path, given) if guess and may_be_guessed(parsed) else parsed


def may_be_guessed(parsed: ParsedLog) -> bool:
    """Return whether no known format reads a record of the log, and the run did not print a result.

    A log of an unknown program with an error may go on after it: the run was started again.
    """
    if parsed.status is Status.INCOMPLETE:
        return parsed.own_run is None and any(problem.code == "no-records" for problem in parsed.problems)
    return parsed.status is Status.UNKNOWN or (
        parsed.status in (Status.FAILED, Status.OOM) and parsed.format is None and parsed.own_run is None
    )


def _guessed(parsed: ParsedLog, path: str | Path, given: Facts | None) -> ParsedLog:
    """Return the log of an unknown program by a proposed format; unchanged if it can be read only once."""
    from trainmark.logs.guess.not_guessed import explain_unknown
    from trainmark.logs.guess.reading import read_guessed

    if not Path(path).is_file():
        return parsed
    try:
        with Path(path).open("rb") as file:
            return read_guessed(parsed, file, given) or explain_unknown(parsed, file)
    except OSError:
        return parsed


def _as_recorded(parsed: ParsedLog, record: Path) -> ParsedLog:
    from trainmark.schema.outcome import Outcome, OutcomeRecord

    try:
        ended = OutcomeRecord.model_validate_json(record.read_bytes())
    except (OSError, ValueError):
        # Most logs have no record in their folder, and a damaged one is ignored.
        return parsed
    if ended.outcome is Outcome.OK:
        return parsed
    status = Status.OOM if ended.outcome is Outcome.OOM else Status.FAILED
    reason = ended.reason or "no reason was recorded"
    problem = Problem("failed", f"the recorded outcome of the run is {ended.outcome}: {reason}")
    return replace(parsed, status=status, problems=(problem, *parsed.problems))


def read_stream(
    stream: BinaryIO, name: str = "-", given: Facts | None = None, *, guess: bool = False
) -> ParsedLog:
    """Read a log from ``stream`` (binary, not necessarily seekable); ``name`` is shown and read for hints.

    With ``guess`` a log of an unknown program is read by a proposed format, as by ``read_log``: the stream is copied
    until a known format has a record.
    """
    if not guess:
        return logs.read_stream(stream, known_formats(), name, given)
    recording = Recording(stream)
    try:
        buffered = cast(BinaryIO, BufferedReader(recording, PIECE_BYTES))
        parsed = logs.read_stream(buffered, known_formats(), name, given, recording.discard)
        copy = recording.replay()
        if copy is None or not may_be_guessed(parsed):
            return parsed
        from trainmark.logs.guess.not_guessed import explain_unknown
        from trainmark.logs.guess.reading import read_guessed

        return read_guessed(parsed, copy, given) or explain_unknown(parsed, copy)
    finally:
        recording.discard()


def follow_log(path: str | Path, given: Facts | None, wait: Callable[[], bool]) -> Iterator[ParsedLog]:
    """Yield the parsed log at ``path`` while a run writes it (``trainmark.logs.following``)."""
    from trainmark.logs.following import follow_log

    return follow_log(path, known_formats(), given, wait)


class _TooSlowError(BaseException):
    """The patterns took too long; not an ``Exception``, which reading would turn into a status."""


def given_format(name: str | None) -> Format | None:
    """Return the format called ``name``, or described in the file of that path; None without a name.

    Raises ``InputError`` if there is no such format.
    """
    if name is None:
        return None
    if name.endswith((".yaml", ".yml")):
        return build_format(read_description(Path(name)))
    return find_format(name)


def described_format(document: Mapping[str, Any], where: str, name: str) -> Format:
    """Return the format that a loaded document describes, as in a card; raise ``InputError`` naming ``where``."""
    return build_format(parse_description(document, where, name))


def read_by_format(path: str | Path, known: Format | None, given: Facts | None) -> ParsedLog:
    """Return the log at ``path`` read by ``known``; without it by any known format, else by a proposed one.

    Raises ``InputError`` if the patterns of ``known`` take too long.
    """
    if known is None:
        return read_log(path, given, guess=True)
    with _bounded(str(path), known):
        return _explained(logs.read_log(path, _only(known), given), known)


def read_stream_by_format(
    stream: BinaryIO, name: str, known: Format | None, given: Facts | None
) -> ParsedLog:
    """Return the log in ``stream`` read as by ``read_by_format``; ``name`` is shown and read for hints."""
    if known is None:
        return read_stream(stream, name, given, guess=True)
    with _bounded(name, known):
        return _explained(logs.read_stream(stream, _only(known), name, given), known)


def _explained(log: ParsedLog, known: Format) -> ParsedLog:
    """Return ``log`` with the way to the reason if no line matches ``known``."""
    sentence = f"no line matches the format '{known.name}': --explain shows how far its patterns match"
    return replace(
        log,
        problems=tuple(
            replace(problem, message=sentence) if problem.code == "unknown-format" else problem
            for problem in log.problems
        ),
    )


def _only(known: Format) -> GivenFormats:
    """Return ``known`` as the only format, also of a log that lacks what tells its program from similar ones."""
    return GivenFormats((replace(known, required=None),))


@contextmanager
def _bounded(name: str, known: Format) -> Iterator[None]:
    """Raise ``InputError`` if the patterns of ``known`` take too long for the log called ``name``."""
    try:
        with _time_bound(_BOUND_S):
            yield
    except _TooSlowError:
        raise InputError(
            f"{name}: the patterns of '{known.name}' took more than {_BOUND_S} s of CPU time: one of them probably "
            "repeats a part that can match in many ways; make it more specific"
        ) from None


@contextmanager
def _time_bound(seconds: float) -> Iterator[None]:
    """Interrupt the block after ``seconds`` of CPU time; a search in a pattern can be interrupted by a signal only."""
    if current_thread() is not main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
