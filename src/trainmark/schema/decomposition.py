"""The gap between two cases as a product of factors that an experiment measured one at a time."""

from typing import Literal

from trainmark.schema.frozen import Frozen
from trainmark.schema.measurement import Ratio

SCHEMA: Literal["trainmark.decomposition/1"] = "trainmark.decomposition/1"

CLOSES_WITHIN = 0.03
"""The share of the gap up to which the tested factors close it."""


class TestedFactor(Frozen):
    """One difference between A and B: the values of both, and its effect measured in two ways.

    ``added`` is A with B's value over A; ``left_out`` is B over B with A's value. They differ where factors interact.
    ``added_case`` and ``left_out_case`` are the ids of the two cases. ``reason`` says why an effect is missing.
    """

    __test__ = False

    name: str
    here: str
    there: str
    added_case: str
    left_out_case: str
    added: Ratio | None
    left_out: Ratio | None
    reason: str | None = None

    @property
    def effect(self) -> Ratio | None:
        """The added effect, or if it is missing that of leaving the factor out."""
        return self.left_out if self.added is None else self.added


class Decomposition(Frozen):
    """The result of an experiment.

    ``gap`` is the ratio B over A that was recorded before, null if there was none; ``measured`` is the same ratio in
    the experiment, which is the product of the factors' effects and the ``interaction``; this is null if fewer than two
    factors could be added to A alone, so that none was measured. ``open`` is the gap over
    ``measured``: what differs between the recorded sides and was not tested. ``not_tested`` are the names of such
    differences. ``closes_within`` is the share by which the tested product misses the gap; null if the product is
    incomplete. ``closes`` is true if that is at most ``limit``. ``complete`` is false while runs are missing.
    """

    schema_name: Literal["trainmark.decomposition/1"] = SCHEMA
    a: str
    b: str
    case_a: str
    case_b: str
    unit: str | None
    rates: tuple[float | None, float | None]
    gap: Ratio | None
    measured: Ratio | None
    factors: tuple[TestedFactor, ...]
    interaction: Ratio | None
    open: Ratio | None
    not_tested: tuple[str, ...] = ()
    limit: float = CLOSES_WITHIN
    closes_within: float | None = None
    closes: bool = False
    complete: bool = True
