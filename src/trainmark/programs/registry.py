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
    from trainmark.logs.synthetic import SampleRun
    from trainmark.programs.options import Dialect

_DESCRIPTION = "log.yaml"


def cards() -> tuple[Path, ...]:
    """Return the cards of all programs, by folder and name."""
    return tuple(card for folder in _folders() for card in sorted(folder.glob("card*.yaml")))


@cache
def formats() -> "tuple[Format, ...]":
    """Return every log format, sorted by folder; a log's content decides its format, order only breaks ties."""
    return tuple(_formats_by_folder().values())


@cache
def _formats_by_folder() -> "dict[str, Format]":
    """Return each folder's format: data (``log.yaml``) or, where a pattern cannot say it, a module (``log.py``)."""
    from trainmark.logs.description import build_format

    described, found = _descriptions_by_folder(), {}
    for folder in _folders():
        if folder.name in described:
            found[folder.name] = build_format(described[folder.name])
        elif (folder / "log.py").is_file():
            found[folder.name] = import_module(f"{programs.__name__}.{folder.name}.log").FORMAT
    return found


def descriptions() -> "tuple[FormatDescription, ...]":
    """Return the descriptions of all formats that are data, sorted by folder."""
    return tuple(_descriptions_by_folder().values())


@cache
def _descriptions_by_folder() -> "dict[str, FormatDescription]":
    from trainmark.logs.description import read_description

    files = {folder.name: folder / _DESCRIPTION for folder in _folders()}
    return {name: read_description(file) for name, file in files.items() if file.is_file()}


@cache
def dialects() -> "Mapping[str, Dialect]":
    """Return the dialect of each program that prints its options, by the program's name."""
    return {_folder(module).replace("_", "-"): module.DIALECT for module in _modules("dialect")}


def find_format(name: str) -> "Format":
    """Return the format called ``name``; raise ``InputError`` with the nearest name if there is none."""
    for known in formats():
        if known.name == name:
            return known
    names = [known.name for known in formats()]
    raise InputError(f"no log format '{name}'{nearest(name, names)} (trainmark parse --list-formats)")


@cache
def samples() -> "Mapping[str, Callable[[SampleRun], Iterator[str]]]":
    """Return the writers of synthetic logs by format name."""
    written = {_folder(module): module.sample for module in _modules("sample")}
    found = {
        known.name: written[folder] for folder, known in _formats_by_folder().items() if folder in written
    }
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
