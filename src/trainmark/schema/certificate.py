"""The certificate of equal work: the comparisons between frameworks, their tolerances and deviations."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

from trainmark.schema.frozen import Frozen, OfTask
from trainmark.schema.outcome import Outcome
from trainmark.schema.precision import Precision

SCHEMA: Literal["trainmark.certificate/1"] = "trainmark.certificate/1"


GOLDEN = "golden"
"""The name of the golden observation where a pair names its second framework."""


class Subject(StrEnum):
    """The quantity that a check compares."""

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
    ROUNDING = "rounding"


class Check(Frozen):
    """One comparison: the largest ``deviation`` found, where, and whether it is within ``tolerance``.

    A tolerance of 0 requires equality. ``remark`` describes the difference, or the convention that was allowed for.
    """

    subject: Subject
    deviation: float
    tolerance: float
    where: str | None = None
    remark: str | None = None

    @property
    def holds(self) -> bool:
        """True if the deviation is within the tolerance; NaN is not."""
        return self.deviation <= self.tolerance


class CheckedVariant(OfTask):
    """Another compiler or variant of a framework, with the checks of its three steps against the observed one.

    ``absent`` is the reason why it could not be checked.
    """

    compiler: str
    checks: tuple[Check, ...] = ()
    absent: str | None = None

    @property
    def way(self) -> tuple[str, ...]:
        """The variant: values of the task's variant axes, then the compiler."""
        return (*map(str, self.axes.values()), self.compiler)

    @property
    def holds(self) -> bool:
        """True if it could be checked and every check passes."""
        return self.absent is None and all(check.holds for check in self.checks)


class Party(OfTask):
    """One framework's observed step, checked against the common description and recipe.

    ``axes`` (the task's variant axes) and ``compiler`` are those of the step that was observed; ``variants`` are the
    others that the cases use. ``multiply_adds`` are those of a forward pass of one sample of the check's inputs.
    ``learning_rates`` and ``momentum`` are solved from the updates, ``decaying`` counts the parameters that decay; they
    are empty in another precision than FP32. For an adaptive optimizer no momentum can be solved; there the whole
    update rule is checked.
    ``reach``: the inputs of every activation span at least the range from the first number to the second.
    """

    framework: str
    version: str | None
    device: str | None
    compiler: str = "none"
    parameters: int
    multiply_adds: int
    learning_rates: tuple[float, ...]
    momentum: tuple[float, ...]
    decaying: int | None
    losses: tuple[float, ...]
    reach: tuple[float, float] | None = None
    checks: tuple[Check, ...]
    variants: tuple[CheckedVariant, ...] = ()

    @property
    def way(self) -> tuple[str, ...]:
        """The variant of the observed step: values of the task's variant axes, then the compiler."""
        return (*map(str, self.axes.values()), self.compiler)

    @property
    def holds(self) -> bool:
        """True if every check passes, those of the variants too."""
        return all(check.holds for check in self.checks) and all(found.holds for found in self.variants)


class Pair(Frozen):
    """The comparison of two frameworks, or of a framework with the golden observation (``GOLDEN``)."""

    frameworks: tuple[str, str]
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """True if every check passes."""
        return all(check.holds for check in self.checks)


class Certificate(OfTask):
    """Evidence that frameworks train one model by the same step on the same weights and batch.

    In FP32 the frameworks are compared with each other. Each is also compared with the golden observation of the model,
    if trainmark has one; in another ``precision`` with nothing else, by the rounding that the format implies.
    ``reduced`` has the sizes of the reduced form that was trained in place of a large model. ``absent`` maps the
    frameworks that could not be checked to the reason. Without any pair there is nothing to compare, and the
    certificate does not hold. ``basis`` is a digest of everything that the
    result depends on: workers, inputs, tolerances and environments. ``rules``, such as the optimizer, are
    the values of the task's axes that change what a step computes; an axis that is missing has its default.
    """

    schema_name: Literal["trainmark.certificate/1"] = SCHEMA
    trainmark_version: str
    model: str
    precision: Precision = Precision.FP32
    reduced: str = ""
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
        """True if all frameworks and their variants could be checked and every check passes."""
        return (
            not self.absent
            and bool(self.pairs)
            and all(party.holds for party in self.parties)
            and all(pair.holds for pair in self.pairs)
        )


def failing(certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Return the certificates that do not hold, without the variants that another precision's certificate has checked.

    A step whose kernels have no FP32 counts only where it was checked. One for which time or memory was lacking, or
    that failed, could have been checked.
    """
    found = tuple(certificates)
    checked = {way for one in found for way, variant in _variants(one) if variant.absent is None}
    checked |= {_way(one, party, party.way) for one in found for party in one.parties}
    left = [_without_absent(one, checked) for one in found]
    return tuple(one for one in left if not one.holds)


_Way = tuple[str, tuple[tuple[str, str], ...], str, str | None, tuple[str, ...]]
"""A variant's model, rules, framework, device and way."""


def _way(certificate: Certificate, party: Party, way: tuple[str, ...]) -> _Way:
    rules = tuple(sorted(certificate.rules.items()))
    return certificate.model, rules, party.framework, party.device, way


def _variants(certificate: Certificate) -> Iterator[tuple[_Way, CheckedVariant]]:
    for party in certificate.parties:
        for variant in party.variants:
            yield _way(certificate, party, variant.way), variant


def _without_absent(certificate: Certificate, checked: Collection[_Way]) -> Certificate:
    """Return a certificate without its absent variants of these ways."""
    # So the reason of a check begins that was tried and ended without a result.
    ended = tuple(f"{outcome.value}:" for outcome in Outcome if outcome is not Outcome.UNSUPPORTED)
    settled = {
        id(variant)
        for way, variant in _variants(certificate)
        if variant.absent and not variant.absent.startswith(ended) and way in checked
    }
    parties = tuple(
        party.model_copy(update={"variants": tuple(one for one in party.variants if id(one) not in settled)})
        for party in certificate.parties
    )
    return certificate.model_copy(update={"parties": parties})
