"""The certificate: what was compared between frameworks, at which tolerances, and how close they are."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA: Literal["trainmark.certificate/1"] = "trainmark.certificate/1"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Subject(StrEnum):
    """What a check looks at."""

    PARAMETERS = "parameters"
    GEOMETRY = "geometry"
    MULTIPLY_ADDS = "multiply-adds"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    LOSS = "loss"
    GRADIENTS = "gradients"
    UPDATES = "updates"
    BATCH_MEANS = "batch-means"
    BATCH_VARIANCES = "batch-variances"
    TIMED_STEP = "timed-step"
    LEARNING_RATE = "learning-rate"
    MOMENTUM = "momentum"
    DECAY = "decay"


class Check(_Frozen):
    """One comparison: the largest ``deviation`` found, where, and whether it is within ``tolerance``.

    A tolerance of 0 asks for equality. ``remark`` says in words what differs, or which convention was allowed for.
    """

    subject: Subject
    deviation: float
    tolerance: float
    where: str | None = None
    remark: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the deviation is within the tolerance; one that is no number is not."""
        return self.deviation <= self.tolerance


class Party(_Frozen):
    """One framework: what its step was seen to be, against the common description and recipe.

    ``multiply_adds`` are those of a forward pass of one image at the check's size. ``learning_rates`` and
    ``momentum`` are solved from the updates, ``decaying`` counts the parameters that decay.
    """

    framework: str
    version: str | None
    device: str | None
    layout: str
    parameters: int
    multiply_adds: int
    learning_rates: tuple[float, ...]
    momentum: tuple[float, ...]
    decaying: int
    losses: tuple[float, ...]
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


class Pair(_Frozen):
    """Two frameworks side by side."""

    frameworks: tuple[str, str]
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


class Certificate(_Frozen):
    """Whether the frameworks train one model by the same step, in FP32, on the same weights and batch.

    ``absent`` are the frameworks that could not be looked at, with the reason. With fewer than two parties there
    is nothing to compare, and the certificate does not hold.
    """

    schema_name: Literal["trainmark.certificate/1"] = SCHEMA
    trainmark_version: str
    model: str
    made_at: datetime
    batch: int
    image_size: int
    steps: int
    parties: tuple[Party, ...]
    pairs: tuple[Pair, ...]
    absent: Mapping[str, str]

    @property
    def holds(self) -> bool:
        """Whether all frameworks could be looked at, and all checks hold."""
        return not self.absent and bool(self.pairs) and not any(True for _ in self.failures())

    def covers(self, frameworks: set[str]) -> bool:
        """Return whether the certificate shows that these frameworks do equal work."""
        found = {party.framework for party in self.parties}
        failing = {name for names, _ in self.failures() for name in names}
        return frameworks <= found and not (frameworks & failing)

    def failures(self) -> Iterator[tuple[tuple[str, ...], Check]]:
        """Yield the checks that do not hold, with the framework or the two that they are about."""
        for party in self.parties:
            yield from (((party.framework,), check) for check in party.checks if not check.holds)
        for pair in self.pairs:
            yield from ((pair.frameworks, check) for check in pair.checks if not check.holds)
