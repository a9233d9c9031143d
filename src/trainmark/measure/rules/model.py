"""The types of this package: a rule (a named method to compute one number from a log) and its result."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from trainmark.logs.model import ParsedLog, Problem, Status, Witness


class RuleKind(StrEnum):
    """The formulas; a rule is a formula with its parameters fixed."""

    WINDOW = "window"
    MEAN = "mean"
    LAST = "last"
    TRIMMED = "trimmed"
    MEDIAN = "median"
    HARMONIC = "harmonic"
    SUMMARY = "summary"
    PROGRESS_BAR = "progress-bar"
    RESUMED_PART = "resumed-part"
    TABLE = "table"
    DLPERF_SPEED = "dlperf-speed"
    DLPERF_TIME = "dlperf-time"


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of applying a rule to a log.

    ``value`` is in the log's unit per second over all devices, or ``None`` with a ``status`` other than ``ok``
    and the reason in ``problems``; ``needs`` are the flags of ``trainmark parse`` that would supply missing facts.
    ``skipped`` and ``used`` count records. ``witnesses`` are all ways to the number that the log allows.
    ``printed`` is the value by the program's own times, if ``value`` is by a clock that contradicts them, and
    ``paused_s`` the seconds of pauses between the steps that it leaves out.
    """

    rule: str
    value: float | None
    status: Status
    skipped: int = 0
    used: int = 0
    problems: tuple[Problem, ...] = ()
    needs: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    printed: float | None = None
    paused_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule: ``compute`` is its formula with the parameters bound.

    ``formats`` are the log formats whose publishers use it (empty: any). ``published_by`` names the publishers and
    their sources. ``skip`` is the number of records that it leaves out, if fixed.
    """

    name: str
    kind: RuleKind
    formula: str
    compute: Callable[[ParsedLog], RuleResult]
    published_by: str = ""
    formats: frozenset[str] = frozenset()
    skip: int | None = None
