"""A bisection: the candidates between a good and a bad one, the measurements, and the first bad candidate."""

from enum import StrEnum
from typing import Literal

from trainmark.schema.frozen import Frozen

SCHEMA: Literal["trainmark.bisection/1"] = "trainmark.bisection/1"


class CandidateKind(StrEnum):
    """The kinds of candidates."""

    COMMIT = "commit"
    PACKAGE = "package"
    VALUE = "value"


class Candidate(Frozen):
    """A candidate: ``name`` is unique and safe in a path, ``label`` is for people."""

    name: str
    label: str


class MeasuredRun(Frozen):
    """One run of the candidate number ``candidate``; ``rate`` is null if it has no number, for ``reason``."""

    candidate: int
    rate: float | None
    unit: str | None
    directory: str
    reason: str | None = None


class Skipped(Frozen):
    """A candidate that cannot be measured, and why."""

    candidate: int
    reason: str


class Ending(StrEnum):
    """The endings of a bisection."""

    FOUND = "found"
    NO_DIFFERENCE = "no-difference"
    """Good and bad cannot be told from each other."""
    ONLY_SKIPPED = "only-skipped"
    """The first bad candidate is one of several that could not be measured."""
    NOT_CERTAIN = "not-certain"
    """The most runs were made before the confidence was reached."""


class Verdict(Frozen):
    """The result: the first bad candidate is one of ``culprits``, with the probability ``confidence``.

    ``ratio`` is the bad over the good rate, with the ends of its 95 % interval. ``between`` are candidates
    whose rate is neither the good nor the bad one.
    """

    ending: Ending
    culprits: tuple[int, ...]
    confidence: float
    ratio: float | None
    low: float | None
    high: float | None
    between: tuple[int, ...] = ()


class Bisection(Frozen):
    """The state of a bisection, which is written after each run. ``candidates`` are in order, the good one first."""

    schema_name: Literal["trainmark.bisection/1"] = SCHEMA
    kind: CandidateKind
    candidates: tuple[Candidate, ...]
    command: tuple[str, ...]
    build: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()
    runs: tuple[MeasuredRun, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    verdict: Verdict | None = None

    @property
    def question(self) -> tuple[object, ...]:
        """The searched candidates and how they are run: a bisection is resumed only for the same ones."""
        return (self.kind, self.candidates, self.command, self.build, self.run_options)
