"""A what-if: the rate that a measured one might be on another device, by a model of two peaks, with its error."""

from typing import Literal

from trainmark.schema.frozen import Frozen

SCHEMA: Literal["trainmark.what-if/1"] = "trainmark.what-if/1"


class ModelError(Frozen):
    """The error of the model on pairs of published figures that differ in the device only.

    ``median`` and ``ninetieth`` are of the absolute deviation of estimate / figure from 1; ``within`` is the share of
    figures between ``low`` and ``high``. ``devices`` are the devices of the pairs.
    """

    pairs: int
    median: float
    ninetieth: float
    within: float
    devices: tuple[str, ...]


class WhatIf(Frozen):
    """One figure on another device: ``measured`` on ``device``, ``estimate`` on the other, both in ``unit``.

    ``low`` and ``high`` follow from the ratios of the two peaks, if the program uses the same share of them. All
    three are null with a ``reason``.
    """

    name: str
    unit: str
    devices: int
    device: str | None
    precision: str | None
    measured: float
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class WhatIfReport(Frozen):
    """The figures of a source on the device ``target``; ``error`` is null if no published pair shows it."""

    schema_name: Literal["trainmark.what-if/1"] = SCHEMA
    source: str
    target: str
    figures: tuple[WhatIf, ...]
    error: ModelError | None
