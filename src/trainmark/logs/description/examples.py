"""Examples in a format's description: a log, the flags of its reader, and the number that it must give."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trainmark.errors import InputError, nearest

_FLAGS = ("gpus", "nodes", "batch", "precision", "skip")


@dataclass(frozen=True, slots=True)
class Example:
    """A log with the ``throughput`` that a reader ``given`` some flags must get; None if it has no number."""

    log: str
    throughput: float | None
    given: Mapping[str, Any] = field(default_factory=dict)
    unit: str | None = None
    status: str | None = None
    source: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


_KEYS = tuple(each.name for each in fields(Example))


def parse_example(document: Mapping[str, Any], where: str) -> Example:
    """Return an example of a description; raise ``InputError`` naming ``where``."""
    for key in document:
        if key not in _KEYS:
            raise InputError(f"{where}: unknown key '{key}'{nearest(str(key), _KEYS)}")
    if "log" not in document or "throughput" not in document:
        raise InputError(
            f"{where}: an example needs 'log' and 'throughput' (null if the log gives no number)"
        )
    given = document.get("given") or {}
    for flag in given:
        if flag not in _FLAGS:
            raise InputError(f"{where}: given: no flag '{flag}'{nearest(str(flag), _FLAGS)}")
    return Example(**document)
