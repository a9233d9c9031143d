"""The ratio of two numbers as a product of named factors, of which the last is what no evidence accounts for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainmark.insight.difference import Basis, RecipeDifference

OPEN = "open"
"""The name of the factor that no evidence accounts for."""


class FactorEvidence(StrEnum):
    """The kind of evidence for a factor."""

    MEASURED = "measured here"
    PUBLISHED = "published"
    PHYSICS = "physics"
    UNKNOWN = "unknown"


_EVIDENCE = {
    Basis.OWN: FactorEvidence.MEASURED,
    Basis.ISOLATED: FactorEvidence.PUBLISHED,
    Basis.BUNDLED: FactorEvidence.PUBLISHED,
    Basis.PHYSICS: FactorEvidence.PHYSICS,
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A difference that may be a part of what is open; ``high`` is the largest factor it may have, if limited."""

    name: str
    high: float | None


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of the ratio: the other side over the run.

    ``value`` is the middle of the interval ``low`` to ``high`` on logarithms. Only the open factor has ``candidates``.
    """

    name: str
    evidence: FactorEvidence
    value: float
    low: float
    high: float
    candidates: tuple[Candidate, ...] = ()


def factors_of(differences: Sequence[RecipeDifference], ratio: float, noise: float) -> tuple[Factor, ...]:
    """Return factors whose product is ``ratio``, the largest first and the open one last.

    ``noise`` is half the width of the ratio's interval on the logarithm, 0 if it is unknown.
    """
    known = [
        Factor(one.axis, _EVIDENCE[one.basis], math.sqrt(one.low * one.high), one.low, one.high)
        for one in differences
        if one.is_sized and one.low and one.high
    ]
    known.sort(key=lambda factor: -abs(math.log(factor.value)))
    rest = ratio / math.prod(factor.value for factor in known)
    low = ratio * math.exp(-noise) / math.prod(factor.high for factor in known)
    high = ratio * math.exp(noise) / math.prod(factor.low for factor in known)
    return (
        *known,
        Factor(
            OPEN, FactorEvidence.UNKNOWN, rest, low, high, tuple(map(_candidate, _may_be_open(differences)))
        ),
    )


def _may_be_open(differences: Sequence[RecipeDifference]) -> list[RecipeDifference]:
    return [one for one in differences if not one.is_sized and one.basis is not Basis.REASONED]


def _candidate(difference: RecipeDifference) -> Candidate:
    limited = difference.basis in (Basis.PHYSICS, Basis.BOUNDED, Basis.BUNDLED, Basis.REMAINDER)
    ends = [end for end in (difference.low, difference.high) if end]
    limit = max(ends, key=lambda end: abs(math.log(end))) if limited and ends else None
    return Candidate(difference.axis, limit)
