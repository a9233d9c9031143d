"""Values of cases that the cards of a suite state, so that the suite need not repeat them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from trainmark.documents import Document, documents_of, parse_document, read_document
from trainmark.errors import InputError
from trainmark.schema.case import BUILT_IN
from trainmark.schema.task_catalogue import declared_tasks, is_neutral, task_of_source
from trainmark.suite.matrix import Point


@dataclass(frozen=True, slots=True)
class CardCases:
    """The framework, task and ``fixed`` axes of each workload that the cards of a suite, or shipped ones, describe.

    A card that cannot be read is left out: the reader of cards reports it.
    """

    _by_name: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)

    def defaults(self, point: Point) -> Point:
        """Return the values that the card of ``point`` states and the point does not.

        They are empty if no card, or more than one, has the point's workload and its other values. ``fixed`` axes are
        values of a case of the neutral task only: other tasks have a default on each axis.
        """
        name = str(point.get("workload", BUILT_IN))
        found = [
            facts
            for facts in self._by_name.get(name) or _shipped_facts(name)
            if all(facts[axis] == point.get(axis, facts[axis]) for axis in ("framework", "task"))
        ]
        if len(found) != 1:
            return {}
        (facts,) = found
        stated = {axis: facts[axis] for axis in ("framework", "task")}
        return stated | (facts["fixed"] if is_neutral(facts["task"]) else {})


def read_card_cases(document: Document) -> CardCases:
    """Return what the cards under ``cards`` of a suite's document state about cases."""
    paths = document.values.get("cards")
    found: dict[str, tuple[Point, ...]] = {}
    for path in paths if isinstance(paths, list) else ():
        facts = _facts_of_file(document.path.resolve().parent / path) if isinstance(path, str) else None
        if facts is not None:
            found[facts["name"]] = (*found.get(facts["name"], ()), facts)
    return CardCases(found)


@cache
def _shipped_facts(name: str) -> tuple[Point, ...]:
    """Return the facts of the shipped card of a program; empty if there is none."""
    if name == BUILT_IN:
        return ()
    try:
        found = [
            _facts(parse_document(one.text, one.path))
            for one in documents_of("programs/cards")
            if one.name == name
        ]
    except InputError:
        return ()
    return tuple(facts for facts in found if facts is not None)


def _facts_of_file(path: Path) -> dict[str, Any] | None:
    try:
        return _facts(read_document(path))
    except InputError:
        return None


def _facts(document: Document) -> dict[str, Any] | None:
    card = document.values
    if not isinstance(card, dict) or not isinstance(card.get("source"), dict):
        return None
    name, framework, fixed = card.get("name"), card.get("framework"), card.get("fixed") or {}
    task = card.get("task", task_of_source(str(card["source"].get("kind"))))
    words = (name, framework, task)
    if (
        not all(isinstance(word, str) for word in words)
        or task not in declared_tasks()
        or not isinstance(fixed, dict)
    ):
        return None
    return {"name": name, "framework": framework, "task": task, "fixed": fixed}
