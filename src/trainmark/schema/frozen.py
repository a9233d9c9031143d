"""The base classes of immutable documents, which have no unknown fields."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

Share = Annotated[float, Field(ge=0, le=1)]
"""A part of a whole, 0 to 1."""

Count = Annotated[int, Field(strict=True, gt=0)]
"""An integer from 1; strict, because YAML's ``yes`` is a boolean and would count as 1."""


class Frozen(BaseModel):
    """An immutable document; an unknown field or NaN is an error."""

    # Most commands use few of the models: each builds its validator when it is first used.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, which are not validated; what was computed from the old ones is dropped."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).__pydantic_fields__.keys():
            del copied.__dict__[name]
        return copied

    def to_json(self) -> str:
        """Return the document as indented JSON with a newline at its end, as files and ``--json`` have it."""
        return self.model_dump_json(indent=1) + "\n"


class OfTask(Frozen):
    """A document with values on a task's axes; in JSON they are next to its other fields."""

    axes: Mapping[str, str | int] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, document: Any) -> Any:
        if not isinstance(document, Mapping) or "axes" in document:
            return document
        common = {name: value for name, value in document.items() if name in cls.model_fields}
        return common | {"axes": {name: value for name, value in document.items() if name not in common}}

    @model_serializer(mode="wrap")
    def _flat(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = dict(handler(self))
        return {**fields.pop("axes"), **fields}
