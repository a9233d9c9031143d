"""The one base class of frozen documents: no field changes, and no unknown field is read."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A document whose fields never change and whose unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
