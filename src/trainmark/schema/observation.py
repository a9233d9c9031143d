"""What one framework's three training steps computed, as its worker tells it; a task adds what its layers are."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA: Literal["trainmark.equivalence/1"] = "trainmark.equivalence/1"


class WorkerReport(BaseModel):
    """What a worker tells; a later worker may tell more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Sketch(WorkerReport):
    """An array, told by its norm and by its sum with fixed pseudo-random signs."""

    norm: float
    signed_sum: float


class DoneStep(WorkerReport):
    """One step of the timed function: what it did to the weights and to the running statistics."""

    updates: Mapping[str, Sketch]
    statistics: Mapping[str, Sketch]


class ObservedStep(DoneStep):
    """One step that was looked into before it was done: what the forward and backward pass gave.

    ``moments`` holds inner products, see ``trainmark.worker.core.equivalence``.
    """

    loss: float
    gradients: Mapping[str, Sketch]
    moments: Mapping[str, Mapping[str, float]]


class Followed(WorkerReport):
    """Three steps of one framework as the timed function did them; ``step_losses`` are those that it kept itself."""

    schema_name: Literal["trainmark.equivalence/1"] = SCHEMA
    framework: str
    model: str
    parameters: int
    steps: tuple[DoneStep, ...]
    step_losses: tuple[float, ...]


class Observation(Followed):
    """Three steps of one framework, each looked into before it was done.

    ``repeated_loss`` is that of another look on the weights and the batch of the first step.
    """

    steps: tuple[ObservedStep, ...]
    repeated_loss: float
