"""A case: one point of a suite's matrix, with every axis said, and the names that it goes by."""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=64)]
"""A name that is safe in a path, a flag and a table: letters, digits, ``. _ + -``, at most 64 of them."""

Count = Annotated[int, Field(strict=True, gt=0)]
"""A whole number from 1: strict, because YAML's ``yes`` is a truth and would count as 1."""

Option = bool | int | float | str


class Precision(StrEnum):
    """How the training step computes; ``fp32`` means that TF32 is off."""

    FP32 = "fp32"
    TF32 = "tf32"
    AMP_FP16 = "amp-fp16"
    AMP_BF16 = "amp-bf16"
    FP16 = "fp16"
    BF16 = "bf16"


class Layout(StrEnum):
    """The order of an image batch in memory."""

    NCHW = "nchw"
    NHWC = "nhwc"


class Device(StrEnum):
    """What a rank computes on; ``auto`` takes the GPU where there is one."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


MAX_BATCH: Literal["max"] = "max"
"""The batch that asks for the largest one that fits into the device's memory."""


class Case(BaseModel):
    """One point of a suite's matrix: what is trained, how, and on how many devices.

    ``batch_per_device`` counts samples; ``image_size`` is the side of a square image in pixels;
    ``data`` is ``synthetic`` or the name of one of the suite's data sets; ``options`` go to the
    workload's program by the names that its card declares.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: Word = "trainmark"
    framework: Word = "pytorch"
    model: Word = "resnet50_v1.5"
    precision: Precision = Precision.FP32
    batch_per_device: Count | Literal["max"] = 32
    nodes: Count = 1
    devices_per_node: Count = 1
    data: Word = "synthetic"
    loader: Word = "native"
    layout: Layout = Layout.NCHW
    compiler: Word = "none"
    image_size: Annotated[int, Field(strict=True, ge=1, le=65536)] = 224
    device: Device = Device.AUTO
    options: Mapping[Word, Option] = Field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """The number of ranks, one a device."""
        return self.nodes * self.devices_per_node

    @property
    def topology(self) -> str:
        """Nodes and devices per node as the field writes them: ``4n8g``."""
        return f"{self.nodes}n{self.devices_per_node}g"

    @property
    def id(self) -> str:
        """The case's name in paths and tables: every axis in a fixed order, so that equal cases have equal ids.

        The loader is left out for synthetic data, the workload for the built-in one and the device where
        it is ``auto``; options add the first six digits of their digest.
        """
        words = [
            *([self.workload] if self.workload != "trainmark" else []),
            self.framework,
            self.model,
            self.precision.value,
            f"b{self.batch_per_device}",
            self.topology,
            self.data if self.data == "synthetic" else f"{self.data}-{self.loader}",
            self.layout.value,
            self.compiler,
            f"{self.image_size}px",
            *([self.device.value] if self.device is not Device.AUTO else []),
            *([f"o{_digest(self.options)}"] if self.options else []),
        ]
        return "-".join(words)

    def at_batch(self, batch_per_device: int) -> "Case":
        """Return this case with another batch per device (how ``max`` becomes a number)."""
        return self.model_copy(update={"batch_per_device": batch_per_device})


AXES: tuple[str, ...] = tuple(Case.model_fields)
"""The names of all axes, in the order in which ids and tables use them."""


def _digest(options: Mapping[str, Option]) -> str:
    canonical: Any = json.dumps(dict(options), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:6]
