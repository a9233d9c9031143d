"""The certificate: what was compared between frameworks, at which tolerances, and how close they are."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

from trainmark.schema.frozen import Frozen, OfTask

SCHEMA: Literal["trainmark.certificate/1"] = "trainmark.certificate/1"


class Subject(StrEnum):
    """What a check looks at."""

    PARAMETERS = "parameters"
    LAYERS = "layers"
    GEOMETRY = "geometry"
    MULTIPLY_ADDS = "multiply-adds"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    LOSS = "loss"
    GRADIENT_NORM = "gradient-norm"
    GRADIENTS = "gradients"
    UPDATE_NORM = "update-norm"
    UPDATES = "updates"
    BATCH_MEANS = "batch-means"
    BATCH_VARIANCES = "batch-variances"
    TIMED_STEP = "timed-step"
    LEARNING_RATE = "learning-rate"
    MOMENTUM = "momentum"
    UPDATE_RULE = "update-rule"
    DECAY = "decay"
    REACH = "reach"


class Check(Frozen):
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


class CheckedVariant(OfTask):
    """Another compiler or way of a framework: whether its three steps are those of the step that was observed.

    ``absent`` is why it could not be looked at.
    """

    compiler: str
    checks: tuple[Check, ...] = ()
    absent: str | None = None

    @property
    def way(self) -> tuple[str, ...]:
        """How it trains, as cases word it."""
        return (*map(str, self.axes.values()), self.compiler)

    @property
    def holds(self) -> bool:
        """Whether it could be looked at, and every check holds."""
        return self.absent is None and all(check.holds for check in self.checks)


class Party(OfTask):
    """One framework: what its step was seen to be, against the common description and recipe.

    ``axes`` (of the task's ways) and ``compiler`` are those of the step that was observed; ``variants`` are the
    others that the cases use. ``multiply_adds`` are those of a forward pass of one sample of the check's inputs.
    ``learning_rates`` and ``momentum`` are solved from the updates, ``decaying`` counts the parameters that decay. Of
    an adaptive optimizer no momentum can be solved; there the whole rule is checked.
    ``reach``: what goes into each activation has values as low as the first number at least, and as high as the second.
    """

    framework: str
    version: str | None
    device: str | None
    compiler: str = "none"
    parameters: int
    multiply_adds: int
    learning_rates: tuple[float, ...]
    momentum: tuple[float, ...]
    decaying: int
    losses: tuple[float, ...]
    reach: tuple[float, float] | None = None
    checks: tuple[Check, ...]
    variants: tuple[CheckedVariant, ...] = ()

    @property
    def way(self) -> tuple[str, ...]:
        """How the observed step trains, as cases word it."""
        return (*map(str, self.axes.values()), self.compiler)

    @property
    def holds(self) -> bool:
        """Whether every check holds, those of the variants too."""
        return all(check.holds for check in self.checks) and all(found.holds for found in self.variants)


class Pair(Frozen):
    """Two frameworks side by side."""

    frameworks: tuple[str, str]
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


class Certificate(OfTask):
    """Whether the frameworks train one model by the same step, in FP32, on the same weights and batch.

    ``absent`` are the frameworks that could not be looked at, with the reason. With fewer than two parties there
    is nothing to compare, and the certificate does not hold. ``basis`` is a digest of what decides the answer: the
    workers, the inputs, the tolerances and the environments. ``rules``, such as the optimizer, are the values of the
    task's axes that change what a step computes; of one that is not among them the default was looked at.
    """

    schema_name: Literal["trainmark.certificate/1"] = SCHEMA
    trainmark_version: str
    model: str
    made_at: datetime
    rules: Mapping[str, str] = {}
    batch: int
    steps: int
    parties: tuple[Party, ...]
    pairs: tuple[Pair, ...]
    absent: Mapping[str, str]
    basis: str = ""

    @property
    def holds(self) -> bool:
        """Whether all frameworks and their variants could be looked at, and all checks hold."""
        return (
            not self.absent
            and bool(self.pairs)
            and all(party.holds for party in self.parties)
            and all(pair.holds for pair in self.pairs)
        )
