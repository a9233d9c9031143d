"""Naming patterns of log trees.

A pattern describes the logs' paths, such as ``{nodes}n{gpus}g/{model}_b{batch}_{precision}_{repeat}.log``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trainmark.errors import InputError, nearest

_NUMBER, _WORD = r"(\d+)", r"([^/]+?)"
_FIELDS: Mapping[str, str] = {
    "nodes": _NUMBER,
    "gpus": _NUMBER,
    "devices": _NUMBER,
    "batch": _NUMBER,
    "repeat": _NUMBER,
    "model": _WORD,
    "precision": _WORD,
    "variant": _WORD,
    "any": r"[^/]*?",
}
_FIELD = re.compile(r"\{(\w*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class PathFields:
    """The fields read from one path; ``gpus`` are per node, ``variant`` is a part of the name with any meaning."""

    nodes: int | None = None
    gpus: int | None = None
    devices: int | None = None
    batch: int | None = None
    repeat: int | None = None
    model: str | None = None
    precision: str | None = None
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class Naming:
    """A parsed naming pattern; ``match`` reads the fields of a path (relative to the tree, with ``/``)."""

    text: str
    pattern: re.Pattern[str]
    fields: tuple[str, ...]

    def match(self, path: str) -> PathFields | None:
        """Return the fields of ``path``, or ``None`` if it does not match the pattern."""
        found = self.pattern.fullmatch(path)
        if found is None:
            return None
        words = dict(zip(self.fields, found.groups(), strict=True))
        numbers = {name: int(word) for name, word in words.items() if _FIELDS[name] == _NUMBER}
        return PathFields(**{**words, **numbers})  # type: ignore[arg-type]


def read_naming(text: str) -> Naming:
    """Return the parsed naming pattern ``text``.

    ``{any}`` matches anything within a file or folder name; the others are the fields of ``PathFields``. Raises
    ``InputError`` if the pattern has no field, an unknown one, or one twice.
    """
    pattern, fields, position = "", [], 0
    for match in _FIELD.finditer(text):
        name = match[1]
        if name not in _FIELDS:
            known = ", ".join(f"{{{field}}}" for field in _FIELDS)
            near = nearest(name, list(_FIELDS)) if name else ""
            raise InputError(f"the pattern '{text}': no field '{match[0]}'{near} (known: {known})")
        if name in fields:
            raise InputError(f"the pattern '{text}' contains '{match[0]}' twice")
        pattern += re.escape(text[position : match.start()]) + _FIELDS[name]
        position = match.end()
        if name != "any":
            fields.append(name)
    if not fields:
        raise InputError(
            f"the pattern '{text}' has no field (example: {{nodes}}n{{gpus}}g/{{model}}_b{{batch}}_{{repeat}}.log)"
        )
    return Naming(text, re.compile(pattern + re.escape(text[position:])), tuple(fields))
