"""Finding and reading cards: of built-in programs, of other known programs, and of the files that a suite names."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from trainmark.errors import InputError, nearest
from trainmark.programs import card_files
from trainmark.schema.case import Case, axes_of
from trainmark.schema.launcher import Launcher
from trainmark.schema.precision import Precision, UnknownPrecision
from trainmark.suite import Document, read_document
from trainmark.tasks import TASKS, case_of
from trainmark.workload.arithmetic import NUMBERS, expression_names, expressions_in
from trainmark.workload.card import OPTION_FORMS, Card, WorkingDirectory
from trainmark.workload.parts import built_in_cards
from trainmark.workload.placeholders import PLACEHOLDERS, placeholders_in
from trainmark.workload.source import BuiltinSource, FilesSource, FolderSource, GitSource

CHECKOUT = "source"
"""The folder, in a run's own, of the working tree of a program that comes from a repository."""
WORKER = Path(__file__).parent.parent / "worker"
"""The folder of the built-in training programs."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A card and the location of its program on this machine.

    For a program from a repository, ``source`` is relative to the run's folder, because each run has its own checkout.
    """

    card: Card
    source: Path


class NoCardError(InputError):
    """An error for a case without a card; ``axis`` is the unknown one of workload, framework and task."""

    def __init__(self, axis: str, message: str) -> None:
        super().__init__(message)
        self.axis = axis


class Workloads:
    """The cards that a suite can use, by workload, framework and task."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._by_key: dict[tuple[str, str], dict[str, Workload]] = {}
        for workload in workloads:
            card = workload.card
            self._by_key.setdefault((card.name, card.framework), {})[card.task] = workload

    def find(self, case: Case) -> Workload:
        """Return the workload of a case; raise ``NoCardError`` when no card has its workload, framework and task."""
        if of_tasks := self._by_key.get((case.workload, case.framework)):
            if case.task in of_tasks:
                return of_tasks[case.task]
            raise NoCardError(
                "task",
                f"workload '{case.workload}' ({case.framework}) does not train {case.task}"
                f"{nearest(case.task, of_tasks)} (it trains: {', '.join(sorted(of_tasks))})",
            )
        names = sorted({name for name, _ in self._by_key})
        if case.workload not in names:
            raise NoCardError("workload", f"no workload '{case.workload}'{nearest(case.workload, names)}")
        frameworks = sorted(framework for name, framework in self._by_key if name == case.workload)
        raise NoCardError(
            "framework",
            f"workload '{case.workload}' has no card for framework '{case.framework}'"
            f"{nearest(case.framework, frameworks)} (it has: {', '.join(frameworks)})",
        )


def load_workloads(files: Iterable[Path] = ()) -> Workloads:
    """Read the shipped cards and those in ``files``, which take the place of shipped ones of their name.

    Raises ``InputError`` for an invalid card, and for two in ``files`` with the same workload, framework and task.
    """
    named: dict[tuple[str, str, str], tuple[Path, Workload]] = {}
    for path in files:
        workload = read_card(path)
        key = (workload.card.name, workload.card.framework, workload.card.task)
        if key in named:
            raise InputError(f"{path}: workload '{key[0]}' for {key[1]} has a card already: {named[key][0]}")
        named[key] = (path, workload)
    return Workloads((*shipped(), *(workload for _, workload in named.values())))


@cache
def shipped() -> tuple[Workload, ...]:
    """Return the cards of the built-in programs and of all other known programs, including those of extensions."""
    return (*map(_workload, built_in_cards()), *map(read_card, card_files()))


def read_card(path: Path) -> Workload:
    """Read one card; raise ``InputError`` with the file, line and key of a mistake."""
    return _workload(read_document(path))


def _workload(document: Document) -> Workload:
    try:
        card = Card.model_validate(document.values)
    except ValidationError as error:
        missing = [
            str(one["loc"][0]) for one in error.errors() if one["type"] == "missing" and len(one["loc"]) == 1
        ]
        if len(missing) > 1:
            raise document.error(
                (), f"the keys {', '.join(missing)} are missing (docs/workloads.md)"
            ) from None
        first = error.errors()[0]
        raise document.error(_place(first["loc"]), _sentence(first["msg"])) from None
    if card.task not in TASKS:
        raise document.error(("task",), f"'{card.task}' is no task{nearest(card.task, TASKS)}")
    for name in card.unknown_axes():
        section = "axes" if name in card.axes else "fixed"
        raise document.error((section, name), f"is not an axis{nearest(name, axes_of())}")
    _check_forms(document, card)
    _check_conditions(document, card)
    _check_values(document, card)
    _check_placeholders(document, card)
    _check_expressions(document, card)
    return Workload(_with_absolute_folder(document, card), _source_of(document, card))


def _with_absolute_folder(document: Document, card: Card) -> Card:
    """Return the card with an absolute path as working directory, where it names a path; check that it exists."""
    name = card.working_directory
    if name in set(WorkingDirectory):
        return card
    folder = (document.path.parent / name).resolve()
    if not folder.is_dir():
        raise document.error(("working_directory",), f"no such folder: {folder} (or write 'run' or 'source')")
    return card.model_copy(update={"working_directory": str(folder)})


def _source_of(document: Document, card: Card) -> Path:
    match card.source:
        case BuiltinSource():
            return WORKER
        case GitSource(folder=inside):
            return Path(CHECKOUT, inside)
        case FilesSource(files=files):
            base = document.path.parent.resolve()
            missing = next((name for name in files if not (base / name).exists()), None)
            if missing is not None:
                raise document.error(("source", "files"), f"no such file: {base / missing}")
            return base
        case FolderSource(path=path):
            folder = (document.path.parent / path).resolve()
            if not folder.is_dir():
                raise document.error(("source", "path"), f"no such folder: {folder}")
            return folder


def _check_forms(document: Document, card: Card) -> None:
    if card.task not in TASKS:
        raise document.error(("task",), f"'{card.task}' is no task{nearest(card.task, TASKS)}")
    forms = TASKS[card.task].forms
    for loader, form in card.data_formats.items():
        if form not in forms:
            known = ", ".join(forms) or "none"
            raise document.error(
                ("data_formats", loader),
                f"'{form}' is not a form of data{nearest(form, forms)} (known: {known})",
            )


def _check_conditions(document: Document, card: Card) -> None:
    for (section, number), when in card.conditions().items():
        for name in when:
            if name not in axes_of():
                raise document.error(
                    (section, number, "when", name), f"is not an axis{nearest(name, axes_of())}"
                )
    if card.launcher.needs_starter is not (card.starter is not None):
        need = "needs a 'starter'" if card.starter is None else "does not use a 'starter'"
        raise document.error(("launcher",), f"'{card.launcher}' {need}")


def _check_values(document: Document, card: Card) -> None:
    """Raise ``InputError`` for values that no case can have; a condition on them would never be met."""
    default = case_of(task=card.task)
    uses: list[tuple[tuple[str | int, ...], str, str]] = []
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
            raise document.error(key, f"no case has {axis} '{text}'{nearest(text, [*kind])} (known: {known})")


def _check_placeholders(document: Document, card: Card) -> None:
    for key, words in card.worded().items():
        for name in (name for word in words for name in placeholders_in(word)):
            # A whole command line may hold braces of its own.
            if name in card.options or (card.launcher is Launcher.COMMAND and key[0] == "command"):
                continue
            if name not in PLACEHOLDERS:
                raise document.error(key, f"{{{name}}} is not a placeholder{nearest(name, PLACEHOLDERS)}")
            if name == "value" and key[0] not in ("axes", "options"):
                raise document.error(key, "{value} can be used only in the words of an axis or an option")
            if name == "learning_rate" and card.scaling is None:
                raise document.error(
                    key, "{learning_rate} is computed from the card's 'scaling', which is missing"
                )


def _check_expressions(document: Document, card: Card) -> None:
    found = [
        (key, text) for key, words in card.worded().items() for word in words for text in expressions_in(word)
    ]
    if isinstance(card.work_per_step, str):
        found.append((("work_per_step",), card.work_per_step))
    known = (*NUMBERS, *card.options, *axes_of(card.task))
    for key, text in found:
        try:
            names = expression_names(text, "expression")
        except InputError as error:
            raise document.error(key, str(error).removeprefix("expression: ")) from None
        for name in sorted(names):
            if name not in known:
                raise document.error(key, f"'{name}' is no axis, option or number{nearest(name, known)}")


def _place(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the key of a mistake without the kind of source, or the form of an option, which pydantic adds."""
    if location[:1] == ("options",) and location[2:3] and location[2] in OPTION_FORMS:
        return (*location[:2], *location[3:])
    return (location[0], *location[2:]) if location[:1] == ("source",) and len(location) > 2 else location


def _sentence(message: str) -> str:
    sentence = message.removeprefix("Value error, ")
    return f"{sentence[0].lower()}{sentence[1:]}"
