"""The proposal for the log of an unknown program."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Guess:
    """A description of the log's format as a document for YAML, its assumptions, and the lines that it is based on.

    ``may_count_samples`` names the counter and the time if nothing tells whether they are of steps or of samples;
    ``counts_epochs``: no line counts steps, so that a record is an epoch.
    """

    document: Mapping[str, Any]
    assumed: tuple[str, ...]
    lines: int
    may_count_samples: tuple[str, str] | None = None
    counts_epochs: bool = False
