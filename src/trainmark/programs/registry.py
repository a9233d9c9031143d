"""Registry of programs, found in their folders: our own and those of extensions."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark import programs
from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from trainmark.logs.description import FormatDescription
    from trainmark.logs.format import Format
    from trainmark.logs.known_formats import IndexedFormats
    from trainmark.logs.synthetic import SampleRun
    from trainmark.programs.format_index import IndexEntry
    from trainmark.programs.options import Dialect

_DESCRIPTION = "log.yaml"


def cards() -> tuple[Path, ...]:
    """Return the cards of all programs, by folder and name."""
    return tuple(card for folder in _folders() for card in sorted(folder.glob("card*.yaml")))


@cache
def formats() -> "tuple[Format, ...]":
    """Return every log format, sorted by folder; a log's content decides its format, order only breaks ties."""
    return tuple(_format_in(entry.folder) for entry in _indexed())


@cache
def known_formats() -> "IndexedFormats":
    """Return every log format, in the same order, each loaded when a log may have it."""
    from trainmark.logs.known_formats import IndexedFormats

    entries = _indexed()
    folders = {entry.words.name: entry.folder for entry in entries}
    return IndexedFormats([entry.words for entry in entries], lambda name: _format_in(folders[name]))


def descriptions() -> "tuple[FormatDescription, ...]":
    """Return the descriptions of all formats that are data, sorted by folder."""
    from trainmark.logs.description import read_description

    files = (folder / _DESCRIPTION for folder in _folders())
    return tuple(read_description(file) for file in files if file.is_file())


@cache
def _format_in(folder_name: str) -> "Format":
    """Return a folder's format; its description is taken from the index, which holds it parsed."""
    entry = next(entry for entry in _indexed() if entry.folder == folder_name)
    folder = next(folder for folder in _folders() if folder.name == folder_name)
    return _read_format(folder) if entry.document is None else _described_format(folder, entry.document)


def _read_format(folder: Path) -> "Format":
    """Return a folder's format: data (``log.yaml``) or, where a pattern cannot say it, a module (``log.py``)."""
    if (folder / _DESCRIPTION).is_file():
        from trainmark.logs.description import build_format, read_description

        return build_format(read_description(folder / _DESCRIPTION))
    found: Format = import_module(f"{programs.__name__}.{folder.name}.log").FORMAT
    return found


def _described_format(folder: Path, document: "Mapping[str, Any]") -> "Format":
    from trainmark.logs.description import build_format
    from trainmark.logs.description.document import default_name, parse_description

    file = folder / _DESCRIPTION
    return build_format(parse_description(document, str(file), default_name(file)))


@cache
def _indexed() -> "tuple[IndexEntry, ...]":
    """Return the index of all formats, sorted by folder."""
    from trainmark.programs.format_index import load_index

    return load_index(_folders(), _index_entries)


def _index_entries() -> "Iterator[IndexEntry]":
    from trainmark.files import parse_yaml
    from trainmark.logs.known_formats import words_of
    from trainmark.programs.format_index import IndexEntry, as_json

    for folder in _folders():
        file = folder / _DESCRIPTION
        if file.is_file() or (folder / "log.py").is_file():
            words = words_of(_read_format(folder))
            document = as_json(parse_yaml(file.read_text(encoding="utf-8"))) if file.is_file() else None
            yield IndexEntry(folder.name, words, document)


@cache
def dialects() -> "Mapping[str, Dialect]":
    """Return the dialect of each program that prints its options, by the program's name."""
    return {_folder(module).replace("_", "-"): module.DIALECT for module in _modules("dialect")}


def find_format(name: str) -> "Format":
    """Return the format called ``name``; raise ``InputError`` with the nearest name if there is none."""
    folders = {entry.words.name: entry.folder for entry in _indexed()}
    if name in folders:
        return _format_in(folders[name])
    raise InputError(f"no log format '{name}'{nearest(name, folders)} (trainmark parse --list-formats)")


@cache
def samples() -> "Mapping[str, Callable[[SampleRun], Iterator[str]]]":
    """Return the writers of synthetic logs by format name."""
    written = {_folder(module): module.sample for module in _modules("sample")}
    found = {entry.words.name: written[entry.folder] for entry in _indexed() if entry.folder in written}
    described = (each for each in descriptions() if each.sample)
    return {**found, **{each.name: _described_sample(each) for each in described}}


def _described_sample(text: "FormatDescription") -> "Callable[[SampleRun], Iterator[str]]":
    from trainmark.logs.description.sample import make_sample

    return make_sample(text.sample, f"{text.where}: sample", text.averages_from)


def synthetic_log(format_name: str, run: "SampleRun") -> str:
    """Return a complete synthetic log in a format, for tests, benchmarks and trying out scripts.

    Nothing in it is a measurement. Raises ``KeyError`` for a format without a writer.
    """
    return "".join(line + "\n" for line in samples()[format_name](run))


def _folder(module: Any) -> str:
    return str(module.__name__).split(".")[-2]


def _modules(name: str) -> Iterator[Any]:
    for folder in _folders():
        if (folder / f"{name}.py").is_file():
            yield import_module(f"{programs.__name__}.{folder.name}.{name}")


@cache
def _folders() -> tuple[Path, ...]:
    """Return each program's folder, sorted by name; of two with the same name, the first on the path."""
    found: dict[str, Path] = {}
    for room in programs.__path__:
        for folder in Path(room).iterdir():
            if folder.name.isidentifier() and folder.is_dir():
                found.setdefault(folder.name, folder)
    return tuple(found[name] for name in sorted(found))
