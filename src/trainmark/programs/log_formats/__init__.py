"""Log formats of training programs, each in the file that is called like it, or as its name begins.

``NAME.yaml`` describes a format as data, or several of a family, as documents with a ``name``. Where a pattern cannot
say it, a module (``-`` in its name written ``_``) has ``FORMAT`` and ``sample`` (a synthetic log). There is no other
list: files are discovered here and in the ``programs/log_formats`` of extensions, and loaded on first use.

A process that reads logs needs a few of sixty formats. An index in the user's cache has the words of their patterns and
descriptions parsed from YAML: it names the candidates, so that the other modules are not imported, the other YAML files
are not parsed, and their expressions are not compiled. It is valid for the exact content of the files that define
formats; where the cache cannot be used, the index is computed again.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import source_hash
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmark import __version__, logs
from trainmark.documents import NamedText, split_documents
from trainmark.errors import InputError, nearest
from trainmark.files import extension_folders, write_atomically

if TYPE_CHECKING:
    from trainmark.logs.description import FormatDescription
    from trainmark.logs.format import Format, FormatWords, IndexedFormats
    from trainmark.logs.synthetic import SampleRun

__path__ = [*__path__, *map(str, extension_folders("programs/log_formats"))]


class IndexEntry(NamedTuple):
    """One format: its words, and its document if it is described in YAML that JSON can hold."""

    words: "FormatWords"
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
    """Return the digest of all that decides the index: every file that defines formats, and the versions."""
    versions = f"{__version__} {sys.implementation.cache_tag}".encode()
    return _digest_of((versions, *_contents([*logs.__path__, *map(str, folders)])))


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
    from trainmark.logs.format import FormatWords, PatternWords

    patterns = (
        PatternWords(*(tuple(word.encode("latin-1") for word in words) for words in pattern))
        for pattern in saved["patterns"]
    )
    words = FormatWords(saved["name"], saved["accompanies"], tuple(patterns))
    return IndexEntry(words, saved["document"])


@cache
def formats() -> "tuple[Format, ...]":
    """Return every log format, sorted by name; a log's content decides its format, order only breaks ties."""
    return tuple(map(_format_of, _files()))


@cache
def known_formats() -> "IndexedFormats":
    """Return every log format, in the same order, each loaded when a log may have it."""
    from trainmark.logs.format import IndexedFormats

    return IndexedFormats([entry.words for entry in _indexed().values()], _format_of)


def descriptions() -> "tuple[FormatDescription, ...]":
    """Return the descriptions of all formats that are data, sorted by name."""
    from trainmark.logs.description import described_in

    return tuple(described_in(file) for file in _files().values() if isinstance(file, NamedText))


def find_format(name: str) -> "Format":
    """Return the format called ``name``; raise ``InputError`` with the nearest name if there is none."""
    if name in _indexed():
        return _format_of(name)
    raise InputError(f"no log format '{name}'{nearest(name, _indexed())} (trainmark parse --list-formats)")


def format_of(name: str | None) -> "Format | None":
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
def _format_of(name: str) -> "Format":
    """Return a format; its description is taken from the index, which holds it parsed."""
    document = _indexed()[name].document
    return _read_format(name) if document is None else _described_format(name, document)


def _read_format(name: str) -> "Format":
    if isinstance(file := _files()[name], NamedText):
        from trainmark.logs.description import build_format, described_in

        return build_format(described_in(file))
    found: Format = _module(name).FORMAT
    return found


def _described_format(name: str, document: "Mapping[str, Any]") -> "Format":
    from trainmark.logs.description import build_format
    from trainmark.logs.description.build import parse_description

    return build_format(parse_description(document, f"the log format {name}", name))


@cache
def _indexed() -> Mapping[str, IndexEntry]:
    """Return the index of all formats by name, sorted."""

    return {entry.words.name: entry for entry in load_index([*map(Path, __path__)], _index_entries)}


def _index_entries() -> Iterator[IndexEntry]:
    from trainmark.documents import parse_yaml
    from trainmark.logs.format import words_of

    for name, file in _files().items():
        document = as_json(parse_yaml(file.text)) if isinstance(file, NamedText) else None
        yield IndexEntry(words_of(_read_format(name)), document)


def _described_sample(text: "FormatDescription") -> "Callable[[SampleRun], Iterator[str]]":
    from trainmark.logs.description.sample import make_sample

    return make_sample(text.sample, f"{text.where}: sample", text.averages_from)


def _module(name: str) -> ModuleType:
    return import_module(f"{__name__}.{name.replace('-', '_')}")


@cache
def _files() -> Mapping[str, Path | NamedText]:
    """Return the module, package or document of each format, sorted by name; of two with one name the first found."""
    found: dict[str, Path | NamedText] = {}
    for room in __path__:
        for file in Path(room).iterdir():
            if file.stem.startswith("_"):
                continue
            if file.suffix == ".py" or (file / "__init__.py").is_file():
                found.setdefault(file.stem.replace("_", "-"), file)
            elif file.suffix == ".yaml":
                for document in split_documents(file):
                    found.setdefault(document.name, document)
    return {name: found[name] for name in sorted(found)}
