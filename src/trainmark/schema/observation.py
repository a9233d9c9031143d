"""Three training steps of one framework as its worker reports them; a task adds its layers."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA: Literal["trainmark.equivalence/1"] = "trainmark.equivalence/1"


class WorkerReport(BaseModel):
    """A report of a worker; fields of later versions are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Sketch(WorkerReport):
    """An array, summarised by its norm and by its sum with fixed pseudo-random signs."""

    norm: float
    signed_sum: float


class DoneStep(WorkerReport):
    """One step of the timed function: the changes of the weights and of the running statistics."""

    updates: Mapping[str, Sketch]
    statistics: Mapping[str, Sketch]


class ObservedStep(DoneStep):
    """One step whose forward and backward pass were observed before the update.

    ``moments`` holds inner products, see ``trainmark.worker.core.equivalence``.
    """

    loss: float
    gradients: Mapping[str, Sketch]
    moments: Mapping[str, Mapping[str, float]]


class Followed(WorkerReport):
    """Three steps of one framework by the timed function; ``step_losses`` are the losses that it recorded."""

    schema_name: Literal["trainmark.equivalence/1"] = SCHEMA
    framework: str
    model: str
    parameters: int
    steps: tuple[DoneStep, ...]
    step_losses: tuple[float, ...]


class Observation(Followed):
    """Three steps of one framework, each observed before its update.

    ``repeated_loss`` is the loss of a second pass on the weights and the batch of the first step.
    """

    steps: tuple[ObservedStep, ...]
    repeated_loss: float
