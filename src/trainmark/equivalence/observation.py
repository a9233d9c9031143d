"""What one framework's three training steps computed, as its worker tells it."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA: Literal["trainmark.equivalence/1"] = "trainmark.equivalence/1"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Sketch(_Frozen):
    """An array, told by its norm and by its sum with fixed pseudo-random signs."""

    norm: float
    signed_sum: float


class SeenConvolution(_Frozen):
    """A convolution as the framework has it; ``padding`` is ((top, bottom), (left, right)), ``output`` NCHW."""

    name: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    groups: int
    output: tuple[int, int, int, int]
    output_norm: float

    def multiply_adds(self, inputs_per_group: int) -> int:
        """Return the multiply-adds of the forward pass of one image."""
        _, channels, height, width = self.output
        return height * width * channels * inputs_per_group * self.kernel[0] * self.kernel[1]


class DoneStep(_Frozen):
    """One step of the timed function: what it did to the weights and to the running statistics."""

    updates: Mapping[str, Sketch]
    statistics: Mapping[str, Sketch]


class ObservedStep(DoneStep):
    """One step that was looked into before it was done: what the forward and backward pass gave.

    ``moments`` holds inner products, see ``trainmark.worker.core.equivalence``.
    """

    loss: float
    logits: tuple[tuple[float, ...], ...]
    gradients: Mapping[str, Sketch]
    moments: Mapping[str, Mapping[str, float]]


class Followed(_Frozen):
    """Three steps of one framework as the timed function did them; ``step_losses`` are those that it kept itself."""

    schema_name: Literal["trainmark.equivalence/1"] = SCHEMA
    framework: str
    model: str
    classes: int
    parameters: int
    steps: tuple[DoneStep, ...]
    step_losses: tuple[float, ...]


class Observation(Followed):
    """Three steps of one framework, each looked into before it was done."""

    convolutions: tuple[SeenConvolution, ...]
    steps: tuple[ObservedStep, ...]
