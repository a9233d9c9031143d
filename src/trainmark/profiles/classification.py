"""The kind of an operation by its name; the patterns of each framework are data (``operations.yaml``)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from trainmark.schema.profile import WorkKind

TABLE = "operations.yaml"


class Role(StrEnum):
    """The role of a named span on the host: it decides for all that runs in it, is an operation, or only wraps some."""

    REGION = "region"
    OPERATION = "operation"
    OVERHEAD = "overhead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Classifier:
    """The patterns of one framework; names are classified once."""

    regions: tuple[tuple[WorkKind, re.Pattern[str]], ...]
    operations: tuple[tuple[WorkKind, re.Pattern[str]], ...]
    overhead: re.Pattern[str] | None
    _known: dict[str, tuple[Role, WorkKind]] = field(default_factory=dict)

    def classify(self, name: str) -> tuple[Role, WorkKind]:
        """Return the role and the kind of a name; wrappers are ``idle``, unknown names ``other``."""
        if name not in self._known:
            self._known[name] = self._classify(name.lower())
        return self._known[name]

    def _classify(self, name: str) -> tuple[Role, WorkKind]:
        if (kind := _first(self.regions, name)) is not None:
            return Role.REGION, kind
        if self.overhead is not None and self.overhead.search(name):
            return Role.OVERHEAD, WorkKind.IDLE
        if (kind := _first(self.operations, name)) is not None:
            return Role.OPERATION, kind
        return Role.UNKNOWN, WorkKind.OTHER


@cache
def classifier(framework: str) -> Classifier:
    """Return the classifier of a framework; one without patterns calls every operation ``other``."""
    table: Mapping[str, Any] = yaml.safe_load(files(__package__).joinpath(TABLE).read_text(encoding="utf-8"))
    rules = table.get(framework, {})
    after = table.get(rules.get("then"), {})
    overhead = [*rules.get("overhead", ()), *after.get("overhead", ())]
    return Classifier(
        tuple(_rules(rules.get("region", ()))),
        tuple(_rules([*rules.get("operation", ()), *after.get("operation", ())])),
        _any_of(overhead) if overhead else None,
    )


def _rules(rules: Iterable[Mapping[str, list[str]]]) -> Iterable[tuple[WorkKind, re.Pattern[str]]]:
    return ((WorkKind(kind), _any_of(patterns)) for rule in rules for kind, patterns in rule.items())


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def _first(rules: Iterable[tuple[WorkKind, re.Pattern[str]]], name: str) -> WorkKind | None:
    return next((kind for kind, pattern in rules if pattern.search(name)), None)
