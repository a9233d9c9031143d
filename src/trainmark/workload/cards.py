"""Finding, reading and checking cards: of built-in programs, of other known programs, and of a suite's own files.

The checks are those that the types of a card do not make; every mistake of a card is found in one reading.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trainmark.documents import Document, Key, NamedText, documents_of, parse_document, read_document
from trainmark.errors import InputError, nearest, plain_message
from trainmark.schema.case import BUILT_IN, Case, axes_of, case_of
from trainmark.schema.precision import Precision, UnknownPrecision
from trainmark.schema.suite import Launcher
from trainmark.tasks import TASKS
from trainmark.workload.card import (
    AUTO_FORMAT,
    NUMBERS,
    OPTION_FORMS,
    PLACEHOLDERS,
    Card,
    Counts,
    StopAfter,
    TypedOption,
    WorkingDirectory,
    expression_names,
    expressions_in,
    placeholders_in,
)
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
    return (*map(_workload, _built_in()), *map(_shipped_card, documents_of("programs/cards")))


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
        found = [
            _shipped_card(document) for document in documents_of("programs/cards") if document.name == name
        ]
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


Mistake = tuple[Key, str]
"""The key of a mistake, and the sentence about it."""

_UNIT = re.compile(r"[A-Za-z][\w. -]*/s")
_BATCH = "batch_per_device"
_ENGINES = ("docker", "apptainer")

_REPLACEMENTS: Mapping[str, Any] = {
    "name": "card",
    "description": "",
    "framework": "python",
    "environment": "system",
    "source": {"kind": "files"},
    "launcher": "process",
    "log_format": AUTO_FORMAT,
    "command": ("program",),
    "axes": {},
}
"""Valid values of the required keys: with them, the other keys of a card with mistakes can be checked too."""


def validated(document: Document) -> tuple[Card | None, frozenset[str], list[InputError]]:
    """Return the card in a document, the keys with mistakes of type, and these mistakes.

    A key with a mistake has another value in the card. The card is None if there are mistakes between keys.
    """
    values = document.values
    try:
        return Card.model_validate(values), frozenset(), []
    except ValidationError as error:
        mistakes, wrong = _type_mistakes(document, error.errors())
    if not isinstance(values, Mapping):
        return None, wrong, mistakes
    rest = {name: value for name, value in values.items() if name in Card.model_fields and name not in wrong}
    try:
        return Card.model_validate(dict(_REPLACEMENTS) | rest), wrong, mistakes
    except ValidationError:
        return None, wrong, mistakes


def card_mistakes(document: Document, card: Card) -> Iterator[tuple[Key, InputError]]:
    """Yield the mistakes in a card's values, each with its key."""
    if card.task not in TASKS:
        yield ("task",), document.error(("task",), f"'{card.task}' is not a task{nearest(card.task, TASKS)}")
        return
    for check in _CHECKS:
        for key, sentence in check(card):
            yield key, document.error(key, sentence)


def _type_mistakes(document: Document, errors: list[ErrorDetails]) -> tuple[list[InputError], frozenset[str]]:
    """Return the first mistake at each key of the document, and the top-level keys."""
    mistakes: dict[Key, str] = {}
    missing = [str(one["loc"][0]) for one in errors if one["type"] == "missing" and len(one["loc"]) == 1]
    if len(missing) > 1:
        mistakes[()] = f"the keys {', '.join(missing)} are missing (docs/reference/workloads.md)"
    for one in errors:
        if one["type"] == "default_factory_not_called":
            # The task of a card without one follows from its source, which has a mistake.
            continue
        key = _place(one["loc"])
        if len(missing) > 1 and len(key) == 1 and key[0] in missing:
            continue
        if one["type"] == "missing" or key in document.lines:
            mistakes.setdefault(key, _sentence(one, key))
            continue
        # A union of types adds their names to the key, with a mistake for each.
        while key and key not in document.lines:
            key = key[:-1]
        mistakes.setdefault(key, _sentence(one, key))
    wrong = frozenset(str(one["loc"][0]) for one in errors if one["loc"])
    return [document.error(key, sentence) for key, sentence in mistakes.items()], wrong


def _place(location: Key) -> Key:
    """Return the key of a mistake without the kind of source, or the form of an option, which pydantic adds."""
    if location[:1] == ("options",) and location[2:3] and location[2] in OPTION_FORMS:
        return (*location[:2], *location[3:])
    return (location[0], *location[2:]) if location[:1] == ("source",) and len(location) > 2 else location


def _sentence(error: ErrorDetails, key: Key) -> str:
    sentence = plain_message(error["msg"])
    near = ""
    if error["type"] == "extra_forbidden" and len(key) == 1:
        near = nearest(str(key[0]), Card.model_fields)
    return f"{sentence[0].lower()}{sentence[1:]}{near}"


def _forms(card: Card) -> Iterator[Mistake]:
    forms = TASKS[card.task].forms
    for loader, form in card.data_formats.items():
        if form not in forms:
            known = ", ".join(forms) or "none"
            sentence = f"'{form}' is not a form of data{nearest(form, forms)} (known: {known})"
            yield ("data_formats", loader), sentence


def _axis_names(card: Card) -> Iterator[Mistake]:
    known = axes_of()
    for section, names in (("axes", card.axes), ("fixed", card.fixed)):
        for name in names:
            if name not in known:
                yield (section, name), f"is not an axis{nearest(name, known)}"
    for (section, number), when in card.conditions().items():
        for name in when:
            if name not in known:
                yield (section, number, "when", name), f"is not an axis{nearest(name, known)}"


def _axis_rules(card: Card) -> Iterator[Mistake]:
    """Yield contradictions between the keys of an axis, or between axes, fixed values and options."""
    for name, rule in card.axes.items():
        if name in card.fixed:
            yield ("fixed", name), "is one of the card's 'axes' too: remove it from one of the two"
        if rule.values is not None and rule.flags:
            yield (
                ("axes", name),
                "has 'values' and 'flags': list the flags of each value, or the values in 'only'",
            )
        if rule.values is not None and rule.only is not None:
            yield ("axes", name), "has 'values' and 'only': 'values' lists the supported values already"
        if rule.counts is not Counts.PER_DEVICE and name != _BATCH:
            yield ("axes", name, "counts"), f"has no effect: only {_BATCH} is counted for devices"
    for name in card.options:
        if name in card.axes:
            yield ("options", name), "is one of the card's 'axes' too: give the option another name"


def _launcher(card: Card) -> Iterator[Mistake]:
    if card.launcher.needs_starter is not (card.starter is not None):
        need = "needs a 'starter'" if card.starter is None else "does not use a 'starter'"
        yield ("launcher",), f"'{card.launcher}' {need}"
    if card.packages and card.environment in _ENGINES:
        yield ("packages",), "are installed into an environment, and not into a container's image"
    if not card.command:
        yield ("command",), "has no words: give the program and its arguments"
    if card.stop_after == StopAfter():
        yield ("stop_after",), "needs 'steps', 'epochs' or 'seconds'"


def _unit(card: Card) -> Iterator[Mistake]:
    if card.unit is not None and not _UNIT.fullmatch(card.unit):
        yield ("unit",), f"'{card.unit}' is not a unit of throughput, such as samples/s or tokens/s"


def _values(card: Card) -> Iterator[Mistake]:
    """Yield values that no case can have; a condition on them would never be met."""
    default = case_of(task=card.task)
    uses: list[tuple[Key, str, str]] = []
    for axis, rule in card.axes.items():
        uses += [(("axes", axis, "values", text), axis, text) for text in rule.values or ()]
        uses += [(("axes", axis, "only"), axis, text) for text in rule.only or ()]
    uses += [(("fixed", axis), axis, str(value)) for axis, value in card.fixed.items()]
    for (section, number), when in card.conditions().items():
        uses += [
            ((section, number, "when", axis), axis, text.removeprefix("!")) for axis, text in when.items()
        ]
    for key, axis, text in uses:
        kind = type(default.value(axis)) if axis in default.axes else None
        if kind is UnknownPrecision:
            kind = Precision
        if kind is not None and issubclass(kind, StrEnum) and text not in [*kind]:
            known = ", ".join(kind)
            yield key, f"no case has {axis} '{text}'{nearest(text, [*kind])} (known: {known})"


def _placeholders(card: Card) -> Iterator[Mistake]:
    for key, words in card.worded().items():
        for name in (name for word in words for name in placeholders_in(word)):
            # A whole command line may hold braces of its own.
            if name in card.options or (card.launcher is Launcher.COMMAND and key[0] == "command"):
                continue
            if name not in PLACEHOLDERS:
                yield key, f"{{{name}}} is not a placeholder{nearest(name, PLACEHOLDERS)}"
            if name == "value" and key[0] not in ("axes", "options"):
                yield key, "{value} can be used only in the words of an axis or an option"
            if name == "learning_rate" and card.scaling is None:
                yield key, "{learning_rate} is computed from the card's 'scaling', which is missing"


def _expressions(card: Card) -> Iterator[Mistake]:
    found: list[tuple[Key, str]] = [
        (key, text) for key, words in card.worded().items() for word in words for text in expressions_in(word)
    ]
    if isinstance(card.work_per_step, str):
        found.append((("work_per_step",), card.work_per_step))
    known = (*NUMBERS, *card.options, *axes_of(card.task))
    for key, text in found:
        try:
            names = expression_names(text, "expression")
        except InputError as error:
            yield key, str(error).removeprefix("expression: ")
            continue
        for name in sorted(names):
            if name not in known:
                yield key, f"'{name}' is not an axis, an option or a number{nearest(name, known)}"


def _options(card: Card) -> Iterator[Mistake]:
    for name, declared in card.options.items():
        if isinstance(declared, TypedOption) and not declared.flags and name not in card.named_options:
            used = (*_all_words(card), str(card.work_per_step))
            if not any(re.search(rf"\b{re.escape(name)}\b", word) for word in used):
                yield (
                    ("options", name),
                    "has no effect: give it 'flags', or use it in a word or an expression",
                )


def _all_words(card: Card) -> Iterator[str]:
    yield from (word for words in card.worded().values() for word in words)


_CHECKS: tuple[Callable[[Card], Iterator[Mistake]], ...] = (
    _axis_names, _axis_rules, _forms, _launcher, _unit, _values, _placeholders, _expressions, _options,
)  # fmt: skip
