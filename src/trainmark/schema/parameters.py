"""The parameters that a run reports: typed fields for names of the built-in workers, other names unchanged."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)

from trainmark.schema.frozen import Frozen


class Parameters(Frozen):
    """The PARAMETER event of a run; fields that it does not contain are null.

    ``free`` has the other names: those of a task, a framework or another program, and a known name with a value of
    another type. In JSON they are next to the other fields.
    """

    framework: str | None = None
    framework_version: str | None = None
    task: str | None = None
    model: str | None = None
    precision: str | None = None
    compiler: str | None = None
    device: str | None = None
    device_name: str | None = None
    data: str | None = None
    loader: str | None = None
    loader_workers: int | None = None
    batch_per_device: int | None = None
    world_size: int | None = None
    global_batch: int | None = None
    steps: int | None = None
    warmup_steps: int | None = None
    seed: int | None = None
    memory_limit_bytes: int | None = None
    unit: str | None = None
    work: Mapping[str, int] | None = None
    optimizer: Mapping[str, Any] | None = None
    actual: Mapping[str, Any] | None = None
    free: Mapping[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> Self:
        """Return the parameters of a run's PARAMETER event."""
        return cls.model_validate(reported)

    def reported(self) -> dict[str, Any]:
        """Return everything that the run reported, unchanged."""
        known = {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }
        return {**{name: value for name, value in known.items() if name != "free"}, **self.free}

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, reported: Any) -> Any:
        if not isinstance(reported, Mapping):
            return reported
        known = {
            name: value for name, value in reported.items() if name != "free" and _fits(cls, name, value)
        }
        return known | {"free": {name: value for name, value in reported.items() if name not in known}}

    @model_serializer(mode="wrap")
    def _flat(self, _handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return self.reported()


def _fits(model: type[Parameters], name: str, value: Any) -> bool:
    if name not in model.model_fields:
        return False
    try:
        _adapter(model, name).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


@cache
def _adapter(model: type[Parameters], name: str) -> TypeAdapter[Any]:
    known: Any = model.model_fields[name].annotation
    return TypeAdapter(known)
