"""A published figure: one printed table cell with the known conditions of its measurement."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)

from trainmark.schema.precision import NarrowPrecision, Precision
from trainmark.schema.recipe import AxisValue
from trainmark.tasks import KnownAxis

ReferenceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=100)]
"""A figure's stable name: lower-case letters, digits, ``.`` and ``-``."""

_NUMBER = re.compile(r"^\d+(\.\d+)?$")


class CellStatus(StrEnum):
    """The content of a published cell: a number, an outcome, or nothing yet."""

    OK = "ok"
    OOM = "oom"
    MISSING = "missing"


class Statistic(StrEnum):
    """The method by which the publisher computed the printed number from records or runs."""

    NOT_STATED = "not-stated"
    SINGLE_RUN = "single-run"
    MEAN_OF_RUNS = "mean-of-runs"
    MEDIAN_OF_RUNS = "median-of-runs"
    MEAN_OVER_EPOCH = "mean-over-epoch"
    HARMONIC_MEAN_OF_EPOCHS = "harmonic-mean-of-epochs"
    EXAMPLE = "example"


class Publication(BaseModel):
    """The source of a figure and of its recipe.

    ``publisher`` is the repository or the organisation, if neither title nor address names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    document: str
    section: str
    publisher: str | None = None
    document_id: str | None = None
    url: str | None = None
    commit: str | None = None
    path: str | None = None
    date: str | None = None
    recipe_from: tuple[str, ...] = ()


class Hardware(BaseModel):
    """The machine as published; ``device_memory_gb`` in GB as the vendor counts them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str | None = None
    device: str | None = None
    device_memory_gb: PositiveInt | None = None
    devices_per_node: PositiveInt | None = None
    host_cpu: str | None = None
    host_memory_gb: PositiveInt | None = None
    interconnect: str | None = None


class Software(BaseModel):
    """The software as published; ``program`` is the training program, ``program_commit`` its version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    framework_version: str | None = None
    container: str | None = None
    program: str | None = None
    program_commit: str | None = None
    command: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    mpi: str | None = None
    horovod: str | None = None
    dali: str | None = None
    driver: str | None = None
    os: str | None = None


class Reference(BaseModel):
    """One published figure. ``printed`` is the cell as printed; ``value`` the rate of all devices in ``unit``.

    With ``per_device`` the publisher prints the rate of one device. A cell without a number has a ``status`` other
    than ``ok`` and no value. ``devices`` counts all devices over all ``nodes``. Facts that the publisher does not state
    are null; ``tokens_per_step`` counts those of all devices; ``recipe`` has only axes that were read in the source.
    ``speedup`` and ``mfu`` (model FLOPs over the device's peak, 0 to 1) are as the publisher printed them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: ReferenceName
    status: CellStatus = CellStatus.OK
    printed: str
    unit: str
    per_device: bool = False
    framework: str
    model: str
    precision: Precision | NarrowPrecision | None = None
    batch_per_device: PositiveInt | None = None
    tokens_per_step: PositiveInt | None = None
    devices: PositiveInt
    nodes: PositiveInt | None = 1
    statistic: Statistic = Statistic.NOT_STATED
    repeat: PositiveInt | None = None
    speedup: PositiveFloat | None = None
    mfu: Annotated[float, Field(gt=0, lt=1)] | None = None
    hardware: Hardware = Hardware()
    software: Software = Software()
    recipe: Mapping[KnownAxis, AxisValue] = Field(default_factory=dict)
    source: Publication
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _status_and_print_agree(self) -> "Reference":
        if (self.status is CellStatus.OK) != bool(_NUMBER.match(self.printed)):
            raise ValueError(f"status '{self.status}' contradicts the printed cell '{self.printed}'")
        return self

    @property
    def value(self) -> float | None:
        """The published rate of all devices in ``unit``, or None if the cell has no number."""
        if self.status is not CellStatus.OK:
            return None
        return float(self.printed) * (self.devices if self.per_device else 1)

    @property
    def text(self) -> str:
        """The cell as printed, with its unit, or its outcome."""
        if self.status is not CellStatus.OK:
            return f"({self.status})"
        return f"{self.printed} {self.unit}{' per device' if self.per_device else ''}"

    def document(self) -> dict[str, Any]:
        """Return the figure as a JSON object with all fields and ``value``."""
        return {"id": self.id, "value": self.value, **self.model_dump(mode="json", exclude={"id"})}
