"""The proposal for the log of an unknown program."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Guess:
    """A description of the log's format as a document for YAML, its assumptions, and the lines that it is based on."""

    document: Mapping[str, Any]
    assumed: tuple[str, ...]
    lines: int
