"""Checks of a card that its types do not make; every mistake of a card is found in one reading."""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trainmark.errors import InputError, nearest, plain_message
from trainmark.schema.case import axes_of
from trainmark.schema.precision import Precision, UnknownPrecision
from trainmark.schema.suite import Launcher
from trainmark.suite import Document
from trainmark.tasks import TASKS, case_of
from trainmark.workload.card import AUTO_FORMAT, OPTION_FORMS, Card, Counts, StopAfter, TypedOption
from trainmark.workload.placeholders import (
    NUMBERS,
    PLACEHOLDERS,
    expression_names,
    expressions_in,
    placeholders_in,
)

Key = tuple[str | int, ...]
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
        yield ("task",), document.error(("task",), f"'{card.task}' is no task{nearest(card.task, TASKS)}")
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
        yield ("unit",), f"'{card.unit}' is no unit of a throughput, such as samples/s or tokens/s"


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
                yield key, f"'{name}' is no axis, option or number{nearest(name, known)}"


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
