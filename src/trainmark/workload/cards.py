"""Finding and reading cards: of built-in programs, of other known programs, and of the files that a suite names."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainmark.errors import InputError, nearest
from trainmark.named_documents import NamedText
from trainmark.programs import card_documents
from trainmark.schema.case import BUILT_IN, Case
from trainmark.suite import Document, parse_document, read_document
from trainmark.workload.card import Card, WorkingDirectory
from trainmark.workload.card_checks import Key, card_mistakes, validated
from trainmark.workload.parts import built_in_cards
from trainmark.workload.source import BuiltinSource, FilesSource, FolderSource, GitSource

CHECKOUT = "source"
"""The folder, in a run's own, of the working tree of a program that comes from a repository."""
WORKER = Path(__file__).parent.parent / "worker"
"""The folder of the built-in training programs."""


Check = Callable[[Document], Iterable[InputError]]
"""A further check of a card's document: it returns the mistakes."""
_Missing = Callable[[Document, Card], Iterator[tuple[Key, InputError]]]
"""A check for files of a card's program that are not on this machine: it yields errors, each with the card's key."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A card and the location of its program on this machine.

    For a program from a repository, ``source`` is relative to the run's folder, because each run has its own checkout.
    The card's own paths are relative to ``base``, the folder of its file.
    """

    card: Card
    source: Path
    base: Path = Path()


class NoCardError(InputError):
    """An error for a case without a card; ``axis`` is the unknown one of workload, framework and task."""

    def __init__(self, axis: str, message: str) -> None:
        super().__init__(message)
        self.axis = axis


class Workloads:
    """The cards that a suite can use, by workload, framework and task: those of its own files, and the shipped ones.

    A shipped card is read when it is looked for: most suites use one of some fifty.
    """

    def __init__(self, workloads: Iterable[Workload] = ()) -> None:
        self._own: dict[tuple[str, str], dict[str, Workload]] = {}
        self._found: dict[tuple[str, str], Mapping[str, Workload]] = {}
        for workload in workloads:
            card = workload.card
            self._own.setdefault((card.name, card.framework), {})[card.task] = workload

    def find(self, case: Case) -> Workload:
        """Return the workload of a case; raise ``NoCardError`` when no card has its workload, framework and task."""
        key = (case.workload, case.framework)
        if (of_tasks := self._found.get(key)) is None:
            of_tasks = self._found[key] = {**shipped_of(*key), **self._own.get(key, {})}
        if (workload := of_tasks.get(case.task)) is not None:
            return workload
        raise self._missing(case, of_tasks)

    def _missing(self, case: Case, of_tasks: Mapping[str, Workload]) -> NoCardError:
        if of_tasks:
            return NoCardError(
                "task",
                f"workload '{case.workload}' ({case.framework}) does not train {case.task}"
                f"{nearest(case.task, of_tasks)} (it trains: {', '.join(sorted(of_tasks))})",
            )
        known = {(workload.card.name, workload.card.framework) for workload in shipped()} | self._own.keys()
        names = sorted({name for name, _ in known})
        if case.workload not in names:
            return NoCardError("workload", f"no workload '{case.workload}'{nearest(case.workload, names)}")
        frameworks = sorted(framework for name, framework in known if name == case.workload)
        return NoCardError(
            "framework",
            f"workload '{case.workload}' has no card for framework '{case.framework}'"
            f"{nearest(case.framework, frameworks)} (it has: {', '.join(frameworks)})",
        )


def load_workloads(files: Iterable[Path] = (), checks: Sequence[Check] = ()) -> Workloads:
    """Read the cards in ``files``, which take the place of shipped ones of their name, framework and task.

    Raises ``InputError`` for the mistakes in all of ``files``, which ``checks`` inspect too, and for two with the same
    workload, framework and task.
    """
    return _combined(files, lambda path: read_card(path, checks))


def recorded_workloads(files: Iterable[Path]) -> Workloads:
    """Read the cards of recorded runs like ``load_workloads``; their programs may have been moved or deleted since."""
    return _combined(files, lambda path: _workload(read_document(path), missing=_nothing_missing))


def _combined(files: Iterable[Path], read_one: Callable[[Path], Workload]) -> Workloads:
    named: dict[tuple[str, str, str], tuple[Path, Workload]] = {}
    mistakes: list[InputError] = []
    read: list[tuple[Path, Workload]] = []
    for path in files:
        try:
            read.append((path, read_one(path)))
        except InputError as error:
            mistakes.append(error)
    _raise(mistakes)
    for path, workload in read:
        key = (workload.card.name, workload.card.framework, workload.card.task)
        if key in named:
            raise InputError(f"{path}: workload '{key[0]}' for {key[1]} has a card already: {named[key][0]}")
        named[key] = (path, workload)
    return Workloads(workload for _, workload in named.values())


@cache
def shipped() -> tuple[Workload, ...]:
    """Return the cards of the built-in programs and of all other known programs, including those of extensions."""
    return (*map(_workload, _built_in()), *map(_shipped_card, card_documents()))


@cache
def _built_in() -> tuple[Document, ...]:
    return tuple(built_in_cards())


@cache
def shipped_of(name: str, framework: str) -> Mapping[str, Workload]:
    """Return the shipped cards of a workload for a framework by their tasks."""
    if name == BUILT_IN:
        documents = [document for document in _built_in() if document.values["framework"] == framework]
        found = [_workload(document) for document in documents]
    else:
        found = [_shipped_card(document) for document in card_documents() if document.name == name]
    return {one.card.task: one for one in found if (one.card.name, one.card.framework) == (name, framework)}


def _shipped_card(document: NamedText) -> Workload:
    return _workload(parse_document(document.text, document.path))


def read_card(path: Path, checks: Sequence[Check] = ()) -> Workload:
    """Read one card; raise ``InputError`` with one line for each mistake: file, line and key.

    ``checks`` inspect the document too.
    """
    return _workload(read_document(path), checks)


def _base(document: Document) -> Path:
    return document.path.parent.resolve()


def _missing_files(document: Document, card: Card) -> Iterator[tuple[Key, InputError]]:
    """Yield an error for a working directory, a program's file or its folder that is not on this machine."""
    base, directory = _base(document), card.working_directory
    if directory not in set(WorkingDirectory) and not (folder := (base / directory).resolve()).is_dir():
        text = f"no such folder: {folder} (or write 'run' or 'source')"
        yield ("working_directory",), document.error(("working_directory",), text)
    match card.source:
        case FilesSource(files=files):
            missing = next((name for name in files if not (base / name).exists()), None)
            if missing is not None:
                yield ("source",), document.error(("source", "files"), f"no such file: {base / missing}")
        case FolderSource(path=path):
            if not (folder := (base / path).resolve()).is_dir():
                yield ("source",), document.error(("source", "path"), f"no such folder: {folder}")


def _nothing_missing(_document: Document, _card: Card) -> Iterator[tuple[Key, InputError]]:
    return iter(())


def _workload(
    document: Document, checks: Sequence[Check] = (), missing: _Missing = _missing_files
) -> Workload:
    card, wrong, mistakes = validated(document)
    if card is None:
        _raise(mistakes)
        raise document.error((), "is no card")
    found = [*card_mistakes(document, card), *missing(document, card)]
    mistakes += [error for key, error in found if key[:1] not in {(name,) for name in wrong}]
    mistakes += [error for check in checks for error in check(document)]
    _raise(mistakes)
    return Workload(_with_absolute_folder(document, card), _source_of(document, card), _base(document))


def _raise(mistakes: Sequence[InputError]) -> None:
    """Raise the mistakes as one error, with a line for each; do nothing if there are none."""
    if mistakes:
        raise InputError("\n".join(dict.fromkeys(map(str, mistakes))))


def _with_absolute_folder(document: Document, card: Card) -> Card:
    """Return the card with an absolute path as working directory, where it names a path."""
    if card.working_directory in set(WorkingDirectory):
        return card
    return card.model_copy(
        update={"working_directory": str((_base(document) / card.working_directory).resolve())}
    )


def _source_of(document: Document, card: Card) -> Path:
    match card.source:
        case BuiltinSource():
            return WORKER
        case GitSource(folder=inside):
            return Path(CHECKOUT, inside)
        case FilesSource():
            return _base(document)
        case FolderSource(path=path):
            return (_base(document) / path).resolve()
