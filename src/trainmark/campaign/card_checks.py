"""Checks of a card that need log formats, rules and environments, which reading a card does not import."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainmark.documents import Document
from trainmark.environment import SYSTEM, find_entry
from trainmark.environment.resolving import ENGINES
from trainmark.errors import InputError
from trainmark.schema.suite import Suite
from trainmark.workload import Workloads, load_workloads
from trainmark.workload.card import AUTO_FORMAT, OWN_FORMAT

_FORMAT = "log_format"
_NAME = re.compile(r"(?:unknown key |the key )?'?([\w.-]+)'?(?:\[(\d+)\])?")
_VALID: Mapping[str, Any] = {"title": "program", "unit": "samples/s", "records": ["{step} {rate}"]}
"""Valid values of a description's required keys: with them, its other keys can be checked too."""


def load_programs(suite: Suite) -> Workloads:
    """Return the workloads that a suite can use; raise ``InputError`` for a card that cannot be used.

    Reading a card does not import log formats and rules, so this function checks before anything runs that the card's
    format, rule and environment exist.
    """
    return load_workloads(map(Path, suite.cards), (program_mistakes,))


def program_mistakes(document: Document) -> Iterator[InputError]:
    """Yield the mistakes in a card's environment, log format and rule."""
    values = document.values
    if not isinstance(values, Mapping):
        return
    yield from _environment(document, values.get("environment"))
    name, rule = values.get(_FORMAT, AUTO_FORMAT), values.get("rule")
    if name == OWN_FORMAT and rule not in (None, "window"):
        yield document.error(
            ("rule",), f"has no effect: {OWN_FORMAT}'s events are always measured by their own window"
        )
        return
    if name != OWN_FORMAT:
        yield from _format(document, name)
        yield from _rule(document, rule, values.get("skip"))


def _environment(document: Document, name: object) -> Iterator[InputError]:
    if not isinstance(name, str) or name in (SYSTEM, *ENGINES) or os.sep in name:
        return
    try:
        find_entry(name)
    except InputError as error:
        yield document.error(("environment",), str(error))


def _rule(document: Document, rule: object, skip: object) -> Iterator[InputError]:
    if not isinstance(rule, str):
        return
    from trainmark.measure.rules import find_rule

    try:
        find_rule(rule, skip if isinstance(skip, int) else None)
    except InputError as error:
        yield document.error(("rule",), str(error))


def _format(document: Document, name: object) -> Iterator[InputError]:
    if isinstance(name, Mapping):
        yield from _description(document, name)
    elif isinstance(name, str) and name != AUTO_FORMAT:
        from trainmark.programs import find_format

        try:
            find_format(name)
        except InputError as error:
            yield document.error((_FORMAT,), str(error))


def _description(document: Document, described: Mapping[str, Any]) -> Iterator[InputError]:
    """Yield the mistakes in a described format, one for each of its keys, with the line of the wrong value."""
    from trainmark.programs.reading import described_format

    held = dict(described)
    # Each round reports one key and gives it a valid value, so that the next mistake shows.
    for _ in range(len(held) + len(_VALID) + 1):
        try:
            described_format(held, _FORMAT, str(document.values.get("name")))
        except InputError as error:
            message = str(error).removeprefix(f"{_FORMAT}: ")
            inner = _key_of(message, held)
            yield InputError(f"{document.where((_FORMAT, *inner))}: {_FORMAT}: {message}")
            if not inner:
                missing = [key for key in _VALID if not held.get(key)]
                if not missing:
                    return
                held |= {key: _VALID[key] for key in missing}
                continue
            name = str(inner[0])
            if name in _VALID and held[name] != _VALID[name]:
                held[name] = _VALID[name]
            else:
                held.pop(name, None)
        else:
            return


def _key_of(message: str, described: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return the key that a message about a description begins with, as far as the description has it."""
    key: list[str | int] = []
    here: Any = described
    for part in message.split(": "):
        found = _NAME.match(part)
        if found is None:
            break
        if not key and found[1] not in described:
            section = next((name for name, held in described.items() if _has(held, found[1])), None)
            if section is not None:
                key, here = [section], described[section]
        if isinstance(here, Mapping) and found[1] in here:
            key.append(found[1])
            here = here[found[1]]
        else:
            named = re.search(r"'([\w.-]+)'", part)
            if isinstance(here, Mapping) and named is not None and named[1] in here:
                key.append(named[1])
            break
        if found[2] is not None and isinstance(here, list) and int(found[2]) < len(here):
            key.append(int(found[2]))
            here = here[int(found[2])]
    return tuple(key)


def _has(held: Any, name: str) -> bool:
    return isinstance(held, Mapping) and name in held
