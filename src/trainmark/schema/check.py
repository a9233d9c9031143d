"""The result of `trainmark check` for the hosts of a suite: findings of one line each, and measurements."""

from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime

from trainmark.schema.frozen import Frozen
from trainmark.schema.precision import Precision


class Level(StrEnum):
    """The severity of a finding: a failure means that the hosts are unfit, a warning leaves that to the reader."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILURE = "failure"


class CheckFinding(Frozen):
    """The result of one check: ``check`` is its short name, ``hosts`` are the hosts that it applies to.

    ``found`` is what was found, ``others`` what the other hosts have, ``remedy`` what to do.
    """

    check: str
    level: Level
    hosts: tuple[str, ...]
    found: str
    others: str | None = None
    remedy: str | None = None


class Quantity(StrEnum):
    """The quantity measured on a device, or (``link``) between two hosts.

    ``one-core`` is arithmetic by one thread, in the time in which that thread did not wait for a core.
    """

    ONE_CORE = "one-core"
    MATRIX_PRODUCT = "matrix-product"
    MEMORY_COPY = "memory-copy"
    HOST_TO_DEVICE = "host-to-device"
    LINK = "link"


class Timing(Frozen):
    """The times of one piece of work on one device of a host, in seconds, one per round.

    ``amount`` is the amount of work in ``unit`` (``FLOP`` or ``bytes``). ``kind`` is the device's model: only
    timings of the same kind and ``precision`` (of matrix products) are compared. The ``device`` of a link is the host
    at its other end.
    """

    quantity: Quantity
    host: str
    device: str
    kind: str
    amount: float
    unit: Literal["FLOP", "bytes"]
    precision: Precision | None = None
    seconds: tuple[float, ...]

    @property
    def fastest_s(self) -> float:
        """The fastest round, in seconds: the device's speed without other load."""
        return min(self.seconds)

    @property
    def rate(self) -> float:
        """The amount of work per second in the fastest round."""
        return self.amount / self.fastest_s


class Reduction(Frozen):
    """The times of an all-reduce over all ``ranks``, in seconds: each repeat by the slowest rank's clock.

    ``size`` is the message size in bytes.
    """

    size: int
    ranks: int
    backend: str
    seconds: tuple[float, ...]


class ClockOffset(Frozen):
    """The offset of a host's clock from the first host's, in seconds, and the error of that offset."""

    host: str
    against: str
    offset_s: float
    error_s: float


class CheckReport(Frozen):
    """The result of a check, written as ``check.json``; ``suite`` is null if none was given.

    ``measured_with`` is the library that took the timings on each host (``torch 2.13.0``).
    """

    schema_version: Literal[1] = 1
    checked: AwareDatetime
    trainmark: str
    suite: str | None
    hosts: tuple[str, ...]
    findings: tuple[CheckFinding, ...]
    timings: tuple[Timing, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    clocks: tuple[ClockOffset, ...] = ()
    measured_with: tuple[str, ...] = ()

    @property
    def fit(self) -> bool:
        """True if no finding is a failure."""
        return all(finding.level is not Level.FAILURE for finding in self.findings)
